"""The vectors need no service, and the waits of the product."""

import pytest

from tools.driving.sesi_client import Reconnection


@pytest.fixture(scope="session", autouse=True)
def database_template() -> None:
    """Create no database."""


@pytest.fixture(autouse=True)
def product_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients wait as long as apps do; the other tests shorten it."""
    monkeypatch.setattr(Reconnection, "pace", 1.0)
