"""A service of the previous release is upgraded behind HAProxy while users chat, pay, read and write."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.ha.rolling import FORTH, Deployment, deployed, missing
from tests.sockets.declared import UNDECLARED, check_frame
from tools.compatibility.compare import SOCKETS, documents, released
from tools.driving.sesi_client import Reconnection

MISSING = missing()
SESSION = "01a2185c-aec7-7297-9ee2-4aaa6e52b99f"
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    """Yield a service of the previous release, whose users' phones wait as long as an app."""
    monkeypatch.setattr(Reconnection, "pace", 1.0)  # other tests use faster phones
    with deployed(pairs=2, worst=True) as made:
        yield made


def added(before: Any) -> list[str]:
    """Return the fields that a frame of the present code must have and that processes of a release don't send.

    `before`: the interface document of the release's sockets.
    """
    old, new = (document["components"]["schemas"] for document in (before, documents()[SOCKETS]))
    present = [(kind, field) for kind in new.keys() & old.keys() for field in new[kind].get("required", ())]
    return [field for kind, field in present if field not in old[kind]["properties"]]


def forgive(before: Any) -> None:
    """Drop what was recorded of frames that only lack the fields added since a release; `before` is as in `added`."""
    lacking = tuple(f"missing required field `{field}`" for field in added(before))
    UNDECLARED[:] = [line for line in UNDECLARED if not any(lack in line for lack in lacking)]


async def test_frames_of_the_previous_release_are_forgiven_for_added_fields_only() -> None:
    page = {"type": "sync", "session_id": SESSION, "messages": [], "last_seq": 1, "more": False, "epoch": "a"}
    page |= {"server_time": "2026-11-26T14:57:39.916888Z", "ref": "r"}
    first = {"type": "auth_ok", "user": {"type": "customer"}}
    check_frame("chat", page, first)
    check_frame("chat", page | {"digest": None}, first)
    assert len(UNDECLARED) == 2
    before = copy.deepcopy(documents()[SOCKETS])
    for schema in before["components"]["schemas"].values():
        for field in ("digest", "blanked"):
            schema.get("properties", {}).pop(field, None)
    forgive(before)
    assert UNDECLARED == []
    check_frame("chat", {name: page[name] for name in page if name != "more"}, first)
    forgive(before)
    assert len(UNDECLARED) == 1
    UNDECLARED.clear()


@pytest.mark.timeout(400)
async def test_rolling_deploy_from_the_previous_release_is_not_noticed(deployment: Deployment) -> None:
    outcome = await deployment.roll("roll all", *FORTH)
    forgive(released()[SOCKETS])
    assert outcome.good, outcome.row()
