"""A hostile client on a socket: what closes the socket, what is refused, and that other users' messages are not
delayed.
"""

import asyncio
import contextlib
import itertools
import signal
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

from realtime.budgets import SYNC_COST
from realtime.handshake import HANDSHAKE_CONTROLS, HANDSHAKE_S
from tests.sockets.plain_socket import PlainSocket, another_realtime, at, bare, bare_and_known
from tests.sockets.test_wire import (
    CLOSE,
    MORE,
    PING,
    PONG,
    TEXT,
    RawConnection,
    frame,
    open_authenticated_connection,
    open_raw_connection,
    said,
    upgrade,
)
from tests.stack import Stack, World, new_id, within
from tools.driving.device import Device

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

FLOOD = 40_000
RATE = 30  # frames a second (WS_FRAMES_PER_SECOND)
TOO_FAST = (4429).to_bytes(2, "big")


async def close_code(wire: RawConnection) -> bytes:
    """Read frames until the close frame; return its code."""
    while True:
        opcode, payload = await wire.frame()
        if opcode == CLOSE:
            return payload


async def send_until_refused(wire: RawConnection, data: bytes) -> None:
    """Send bytes as long as the service accepts them."""
    with contextlib.suppress(ConnectionError):
        wire.send(data)
        await wire.drain()


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(frame(PING) * FLOOD, id="pings"),
        pytest.param(frame(PONG) * FLOOD, id="pongs"),
        pytest.param(frame(TEXT, b"{", first=0) + frame(MORE, first=0) * FLOOD, id="empty parts"),
    ],
)
async def test_flood_of_control_frames_or_empty_parts_closes_with_4429(world: World, flood: bytes) -> None:
    async with open_authenticated_connection(await world.customer()) as wire:
        sending = asyncio.create_task(send_until_refused(wire, flood))
        assert await close_code(wire) == TOO_FAST
        sending.cancel()


async def test_pings_of_an_unauthenticated_socket_do_not_keep_it_open(world: World) -> None:
    customer = await world.customer()
    socket = await world.until(lambda: opened(customer), lambda socket: socket)
    pings = 0
    began = time.monotonic()
    while not socket.ws.closed and pings < 100:
        pings += 1
        with contextlib.suppress(ConnectionError):
            await socket.ws.ping()
        with contextlib.suppress(TimeoutError):
            await socket.ws.receive(timeout=HANDSHAKE_S / HANDSHAKE_CONTROLS * 1.2)
    assert socket.ws.close_code == 4401
    assert pings <= HANDSHAKE_CONTROLS
    assert time.monotonic() - began < within(HANDSHAKE_S + 1)


async def test_flood_before_authentication_closes_the_socket(world: World) -> None:
    customer = await world.customer()
    for flood in (frame(PING) * 100, frame(TEXT, b"{", first=0) + frame(MORE, first=0) * 5000):
        async with open_raw_connection(customer) as wire:
            wire.send(upgrade())
            assert (await wire.answer())[0] == 101
            await send_until_refused(wire, flood)
            assert await close_code(wire) == TOO_FAST


async def test_frames_in_small_pieces_are_not_a_flood(world: World) -> None:
    async with open_authenticated_connection(await world.customer()) as wire:
        text = b'{"type":"ping","ref":"big"' + b" " * 16_000 + b"}"
        pieces = [text[start : start + 100] for start in range(0, len(text), 100)]
        for piece in pieces[:-1]:
            wire.send(frame(TEXT if piece is pieces[0] else MORE, piece, first=0))
        wire.send(frame(MORE, pieces[-1]))
        assert (await wire.receive())["ref"] == "big"


@pytest.fixture(scope="module")
def slow_port(stack: Stack) -> Iterator[int]:
    """Yield the port of a process whose budgets refill so slowly that the speed of a busy machine does not matter."""
    with another_realtime(stack, "slow", WS_FRAMES_PER_SECOND="1") as port:
        yield port


async def test_frame_budget_is_shared_by_sockets_and_kept_across_reconnects(world: World, slow_port: int) -> None:
    customer = at(await world.customer(), slow_port)
    first, _ = await bare_and_known(customer)
    second, _ = await bare_and_known(customer, "pairing")
    for socket in (first, second):
        for _ in range(95):
            await socket.say({"type": "ping"})
        for _ in range(95):
            assert (await socket.next_frame())["type"] == "pong"
    await first.ws.close()
    await second.ws.close()
    third, _ = await bare_and_known(customer)
    for _ in range(150):  # a fresh budget would hold 200
        if third.ws.closed:
            break
        await third.say({"type": "ping"})
    assert await third.code() == 4429
    other, _ = await bare_and_known(at(await world.customer(), slow_port))
    await other.say({"type": "ping"})
    assert (await other.next_frame())["type"] == "pong"


async def test_repeatedly_opened_sockets_close_with_4429(world: World, slow_port: int) -> None:
    customer = at(await world.customer(), slow_port)
    codes: set[int | None] = set()
    for _ in range(120):
        socket = await bare(customer)
        await socket.say({"type": "auth", "token": customer.access_token})
        answer = await socket.ws.receive()
        if socket.ws.closed:
            codes.add(socket.ws.close_code)
            break
        assert answer.json()["type"] == "auth_ok"
        await socket.ws.close()
    assert codes == {4429}


async def synced(socket: PlainSocket, session_id: str, count: int) -> list[dict[str, Any]]:
    """Send `sync` `count` times; return the answers."""
    for number in range(count):
        await socket.say({"type": "sync", "session_id": session_id, "after": 0, "ref": str(number)})
    answers: list[dict[str, Any]] = []
    while len(answers) < count:
        if "ref" in (heard := await socket.next_frame()):
            answers.append(heard)
    return answers


async def test_sync_over_budget_is_refused_and_works_after_the_wait(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    socket, _ = await bare_and_known(customer)
    began = time.monotonic()
    answers = await synced(socket, session_id, 120)
    refused = [answer for answer in answers if answer["type"] == "error"]
    refilled = (time.monotonic() - began) * RATE / SYNC_COST
    assert 80 - refilled <= len(refused) + 1 <= 81  # forty are in the budget
    assert len(refused) > 10
    assert {answer["code"] for answer in refused} == {"TOO_FAST"}
    assert {answer["retry_after_seconds"] for answer in refused} == {1}
    await asyncio.sleep(1)
    [again] = await synced(socket, session_id, 1)
    assert again["type"] == "sync"
    for number in itertools.count():
        if socket.ws.closed or number > 1000:
            break
        await socket.say({"type": "sync", "session_id": session_id, "after": 0})
    assert await socket.code() == 4429


async def test_acks_of_unknown_events_and_foreign_sessions_cost_more(world: World) -> None:
    strange = new_id()
    for some, frames in (
        (60, lambda: {"type": "ack", "event_id": new_id()}),
        (15, lambda: {"type": "sync", "session_id": new_id(), "after": 0}),
        (15, lambda: {"type": "typing", "session_id": strange, "is_typing": True}),
    ):
        socket, _ = await bare_and_known(await world.customer())
        for _ in range(some):
            await socket.say(frames())
        assert await socket.code() == 4429


async def test_acks_of_own_events_cost_as_much_as_ordinary_frames(world: World) -> None:
    customer = await world.customer()
    payment = await world.paid(customer)
    ids = [new_id() for _ in range(150)]
    await world.stack.sql(
        """INSERT INTO deliveries (id, recipient_id, recipient_type, event, session_id, payload, created_at)
           SELECT u.id, $2::uuid, 'customer', 'session_warning', $3::uuid, '{"type":"session_warning"}', now()
           FROM unnest($1::uuid[]) AS u(id)""",
        ids, customer.user["id"], payment["session_id"],
    )  # fmt: skip
    async with open_authenticated_connection(customer) as wire:
        wire.send(b"".join(said(type="ack", event_id=event_id.upper()) for event_id in ids))
        wire.send(said(type="ping", ref="open"))
        while (await wire.receive()).get("ref") != "open":
            pass
        await world.until(
            lambda: world.stack.sql("SELECT 1 FROM deliveries WHERE id = ANY($1::uuid[])", ids),
            lambda left: left == [],
        )
        wire.send(said(type="ping", ref="still"))
        while (await wire.receive()).get("ref") != "still":
            pass
    async with open_authenticated_connection(customer) as other_device:  # it received the same events
        other_device.send(b"".join(said(type="ack", event_id=event_id) for event_id in ids[:40]))
        for ref in ("one", "two"):
            other_device.send(said(type="ping", ref=ref))
            while (await other_device.receive()).get("ref") != ref:
                pass
            await asyncio.sleep(0.2)  # the acknowledgements are written together, a little later


@contextlib.asynccontextmanager
async def readers_waiting(world: World, people: list[Device]) -> AsyncIterator[None]:
    """Make these users' acknowledgements and snapshots wait for a locked table, as with a slow database."""
    async with contextlib.AsyncExitStack() as stack:
        sockets = [(await bare_and_known(person))[0] for person in people]
        holder = await stack.enter_async_context(world.stack.transaction())
        await holder.execute("LOCK TABLE deliveries IN ACCESS EXCLUSIVE MODE")
        for socket, person in zip(sockets, people, strict=True):
            await socket.say({"type": "ack", "event_id": new_id()})
            late = await bare(person)
            await late.say({"type": "auth", "token": person.access_token})
        await world.until(
            lambda: world.stack.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"), lambda rows: rows
        )
        await asyncio.sleep(0.3)  # until all of them wait
        yield


async def test_message_is_committed_while_client_reads_wait(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    phone = await customer.open("chat")
    people = [await world.customer() for _ in range(14)]  # more than the process has connections
    async with readers_waiting(world, people):
        began = time.monotonic()
        ack = await phone.say(session_id, "halo")
        assert ack["type"] == "message_ack"
        assert time.monotonic() - began < within(1)


async def test_auth_frame_buffered_during_a_suspension_is_not_late(world: World) -> None:
    """The process is suspended for longer than the time for the auth frame, which has arrived already."""
    customer = await world.customer()
    socket = await bare(customer)
    process = world.stack.processes["realtime"]
    process.send_signal(signal.SIGSTOP)
    try:
        await socket.say({"type": "auth", "token": customer.access_token})
        await asyncio.sleep(5.5)
    finally:
        process.send_signal(signal.SIGCONT)
    assert (await socket.next_frame())["type"] == "auth_ok"
    await world.until(lambda: opened(customer), lambda socket: socket)


async def opened(client: Device) -> PlainSocket | None:
    """Open a socket; None while the process refuses upgrades, which it does for a moment after it was slow."""
    with contextlib.suppress(aiohttp.WSServerHandshakeError):
        return await bare(client)
    return None


async def test_silent_socket_closes_with_1013_if_the_process_was_slow_and_else_with_4401(world: World) -> None:
    customer = await world.customer()
    slow = await world.until(lambda: opened(customer), lambda socket: socket)
    # The upgrade's answer is sent before the timer of the auth frame starts; it runs once the process serves another
    # client.
    await bare_and_known(customer)
    process = world.stack.processes["realtime"]
    process.send_signal(signal.SIGSTOP)
    await asyncio.sleep(6)
    process.send_signal(signal.SIGCONT)
    assert await slow.code() == 1013
    silent = await world.until(lambda: opened(customer), lambda socket: socket)
    assert await silent.code() == 4401
