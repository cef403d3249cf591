"""A service of the previous release is upgraded behind HAProxy while users chat, pay, read and write."""

from collections.abc import Iterator

import pytest

from tests.ha.rolling import FORTH, Deployment, deployed, missing
from tests.sockets.declared import UNDECLARED
from tools.phone import Reconnection

MISSING = missing()
ADDED = ("blanked",)  # fields of frames that processes of the previous release do not send
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    """Yield a service of the previous release, whose users' phones wait as long as an app."""
    monkeypatch.setattr(Reconnection, "pace", 1.0)  # other tests use faster phones
    with deployed(pairs=2, worst=True) as made:
        yield made


@pytest.mark.timeout(400)
async def test_rolling_deploy_from_the_previous_release_is_not_noticed(deployment: Deployment) -> None:
    outcome = await deployment.roll("roll all", *FORTH)
    old = [one for one in UNDECLARED if any(f"missing required field `{name}`" in one for name in ADDED)]
    UNDECLARED[:] = [one for one in UNDECLARED if one not in old]
    assert outcome.good, outcome.row()
