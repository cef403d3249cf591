"""`mitra_status_changed`: a mitra's phones learn that the mitra went online or offline, and why."""

from typing import Any

import pytest

from tests.stack import World
from tools.driving.device import Device, RecordedSocket

pytestmark = pytest.mark.anyio
ONLINE, OFFLINE = "/api/mitra/status/online", "/api/mitra/status/offline"
EVENT = "mitra_status_changed"
STORED = "SELECT payload FROM deliveries WHERE recipient_id = $1::uuid AND event = 'mitra_status_changed'"


async def changed(desk: RecordedSocket) -> tuple[bool, str, bool]:
    """Wait for the next change; return the status, the reason, and whether it must be acknowledged."""
    frame = await desk.wait(EVENT)
    return frame["is_online"], frame["reason"], "event_id" in frame


async def force_offline(world: World, mitra: Device) -> None:
    """Let an operator take a mitra offline."""
    await (await world.operator()).post(f"/internal/mitras/{mitra.user['id']}/force-offline")


async def stored(world: World, mitra: Device) -> list[Any]:
    """Return the changes that wait for an acknowledgement."""
    return await world.stack.sql(STORED, mitra.user["id"])


async def test_status_change_by_the_mitra_reaches_each_phone_and_is_not_stored(fast_world: World) -> None:
    mitra = await fast_world.mitra(online=False)
    desks = [await mitra.open("pairing", ack=False) for _ in range(2)]
    for path, is_online in ((ONLINE, True), (OFFLINE, False)):
        await mitra.post(path)
        await mitra.post(path)  # changes nothing
        for desk in desks:
            assert await changed(desk) == (is_online, "self", False)
    assert [sum(frame["type"] == EVENT for frame in desk.frames) for desk in desks] == [2, 2]
    assert await stored(fast_world, mitra) == []


async def test_status_change_by_an_operator_has_its_reason_and_only_the_newest_is_kept(fast_world: World) -> None:
    mitra = await fast_world.mitra()
    for _ in range(2):
        desk = await mitra.open("pairing", ack=False)
        await mitra.post(ONLINE)
        await force_offline(fast_world, mitra)
        assert await changed(desk) == (False, "operator", True)
        desk.abort()
        assert len(await stored(fast_world, mitra)) == 1
    desk = await mitra.open("pairing", ack=False)
    assert await changed(desk) == (False, "operator", True)
    assert sum(frame["type"] == EVENT for frame in desk.frames) == 1
    await mitra.post(ONLINE)  # the stored change is out of date
    assert await stored(fast_world, mitra) == []
    await force_offline(fast_world, mitra)
    acknowledging = await mitra.open("pairing")
    await changed(acknowledging)
    await fast_world.until(lambda: stored(fast_world, mitra), lambda rows: rows == [])
    await force_offline(fast_world, mitra)  # offline already
    assert await stored(fast_world, mitra) == []


async def test_status_change_by_silence_has_its_reason(fast_world: World) -> None:
    mitra = await fast_world.mitra()
    fast_world.stop_heartbeats(mitra)
    desk = await mitra.open("pairing")
    async with fast_world.setting(mitra_stale_after_seconds=60):
        assert await changed(desk) == (False, "stale", True)


async def test_deactivation_is_reported_before_the_sockets_close(fast_world: World) -> None:
    for online in (True, False):
        mitra = await fast_world.mitra(online=online)
        desks = [await mitra.open("pairing", ack=False) for _ in range(3)]
        chat = await mitra.open("chat")
        operator = await fast_world.operator()
        await operator.call("PATCH", f"/internal/mitras/{mitra.user['id']}", {"is_active": False})
        for desk in desks:
            assert await changed(desk) == (False, "deactivated", True)
            assert await desk.wait_closed() == 4403
        assert await chat.wait_closed() == 4403


async def test_revoked_phone_of_an_active_mitra_closes_without_a_reason(fast_world: World) -> None:
    mitra = await fast_world.mitra()
    desk = await mitra.open("pairing")
    await mitra.post("/api/shared/auth/logout")
    assert await desk.wait_closed() == 4403
    assert [frame["type"] for frame in desk.frames if frame["type"] == EVENT] == []
