"""Any frame of a mitra counts as a heartbeat; only what depends on the heartbeat waits for its write
(docs/product.md#heartbeat).
"""

import datetime as dt
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.stack import Stack, World, new_id
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

HEARD = "SELECT last_heartbeat_at FROM mitra_online_status WHERE mitra_id = $1::uuid"
HOLD = "SELECT 1 FROM mitra_online_status WHERE mitra_id = $1::uuid FOR UPDATE"
WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%mitra_online_status%'"
RUNNING = "UPDATE service_processes SET since_at = since_at - interval '1 hour'"
SILENT = "UPDATE mitra_online_status SET last_heartbeat_at = now() - interval '50 seconds' WHERE mitra_id = $1::uuid"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Yield a service without a jobs process, so no mitra is taken offline."""
    made = Stack()
    made.stop("jobs")
    yield made
    made.close()


@pytest.fixture
async def world(stack: Stack) -> AsyncIterator[World]:
    """Yield the users of that service."""
    made = World(stack, heartbeats=False)
    yield made
    await made.leave_searches()
    await made.close()


async def last_heartbeat(world: World, mitra: Device) -> dt.datetime:
    """Return the time of a mitra's last heartbeat."""
    return (await world.stack.sql(HEARD, mitra.user["id"]))[0][0]


async def wait_for_heartbeat(world: World, mitra: Device, *, after: dt.datetime) -> None:
    """Wait until a mitra has a new heartbeat."""
    await world.until(lambda: last_heartbeat(world, mitra), lambda at: at > after)


async def silent(world: World) -> Device:
    """Return a mitra who was silent for too long and was not taken offline yet."""
    mitra = await world.mitra()
    await be_silent(world, mitra)
    return mitra


async def be_silent(world: World, mitra: Device) -> None:
    """Move the mitra's last heartbeat too far back; the service could accept heartbeats all the time since then."""
    await world.stack.sql(RUNNING)
    await world.stack.sql(SILENT, mitra.user["id"])


@pytest.mark.parametrize(
    ("path", "kind"),
    [("chat", "ping"), ("chat", "ack"), ("pairing", "ping"), ("pairing", "heartbeat"), ("pairing", "ack")],
)
async def test_any_frame_of_a_mitra_counts_as_a_heartbeat(world: World, path: str, kind: str) -> None:
    mitra = await silent(world)
    before = await last_heartbeat(world, mitra)
    socket = await mitra.open(path, ack=False)
    await socket.send({"type": kind} | ({"event_id": new_id()} if kind == "ack" else {}))
    await wait_for_heartbeat(world, mitra, after=before)


async def test_chat_message_of_a_mitra_counts_as_a_heartbeat(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    await be_silent(world, mitra)
    before = await last_heartbeat(world, mitra)
    desk = await mitra.open("chat", ack=False)
    assert (await desk.say(session_id, "here"))["type"] == "message_ack"
    await wait_for_heartbeat(world, mitra, after=before)


async def test_accept_of_a_silent_mitra_waits_for_its_heartbeat_and_succeeds(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    desk = await mitra.open("pairing", ack=False)
    payment = await world.paid(customer)
    await desk.wait("chat_request", where=lambda frame: frame["request"]["session_id"] == payment["session_id"])
    await be_silent(world, mitra)
    async with world.stack.transaction() as holder:
        await holder.execute(HOLD, mitra.user["id"])
        await desk.send({"type": "accept", "session_id": payment["session_id"]})
        await world.until(lambda: world.stack.sql(WAITING), bool)
    assert (await desk.wait("accepted"))["session"]["id"] == payment["session_id"]


async def test_failed_heartbeat_write_is_not_counted_and_the_next_is_written(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    chat = await mitra.open("chat", ack=False)
    desk = await mitra.open("pairing", ack=False)
    async with world.stack.transaction() as holder:
        await holder.execute(HOLD, mitra.user["id"])
        before = await last_heartbeat(world, mitra)
        assert (await chat.say(session_id, "held"))["type"] == "message_ack"
        await chat.send({"type": "ping"})
        await chat.wait("pong")
    assert await last_heartbeat(world, mitra) == before
    await desk.send({"type": "heartbeat"})
    await wait_for_heartbeat(world, mitra, after=before)


async def test_heartbeat_of_an_offline_mitra_is_refused_each_time(world: World) -> None:
    mitra = await world.mitra()
    desk = await mitra.open("pairing", ack=False)
    await mitra.post("/api/mitra/status/offline")
    await desk.send({"type": "ping"})
    await desk.wait("pong")
    for ref in ("one", "two"):
        await desk.send({"type": "heartbeat", "ref": ref})
        error = await desk.wait("error", where=lambda frame, ref=ref: frame.get("ref") == ref)
        assert error["code"] == "MITRA_OFFLINE"


async def test_heartbeats_within_ten_seconds_are_written_once(world: World) -> None:
    mitra = await silent(world)
    before = await last_heartbeat(world, mitra)
    desk = await mitra.open("pairing", ack=False)
    await wait_for_heartbeat(world, mitra, after=before)  # of the new socket itself, which is written in the background

    async def beat() -> Any:
        await desk.send({"type": "heartbeat"})
        await desk.send({"type": "ping"})
        await desk.wait("pong")
        return await last_heartbeat(world, mitra)

    noted = await beat()
    assert [await beat() for _ in range(5)] == [noted] * 5
