"""What several files about the commands share."""

import pytest

from tests.forked import Forked
from tools.driving.service import Service


@pytest.fixture
def forked_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the processes and commands of the benchmark's services of this tree; those of other revisions are launched."""
    monkeypatch.setattr(Service, "launch", Forked)
    monkeypatch.setattr(Service, "execute", Forked.command)
