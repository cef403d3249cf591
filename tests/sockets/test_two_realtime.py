"""Two realtime processes: it makes no difference to which one a user is connected."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.scrape import scrape
from tests.sockets.plain_socket import at, end_early
from tests.stack import Stack, World, new_id, within
from tools.driving.device import RecordedSocket
from tools.driving.throwaway import free_port

pytestmark = pytest.mark.anyio


@pytest.fixture
def second_port(stack: Stack) -> Iterator[int]:
    """Yield the port of a second realtime process."""
    port = free_port()
    stack.start("realtime", key="realtime2", REALTIME_PORT=str(port))
    stack.wait_ready("realtime", port=port)
    yield port
    if stack.processes["realtime2"].poll() is None:
        stack.stop("realtime2")
    del stack.processes["realtime2"]


async def say_many(socket: RecordedSocket, session_id: str, words: list[str]) -> list[str]:
    """Send messages; return the contents of those that were acknowledged before the socket closed."""
    refs = {new_id(): word for word in words}
    try:
        for ref, word in refs.items():
            frame = {"type": "send_message", "session_id": session_id, "client_message_id": new_id(), "ref": ref}
            await socket.send(frame | {"content": word})
        for ref in refs:
            await socket.wait("message_ack", where=lambda frame, ref=ref: frame.get("ref") == ref)
    except ConnectionError:
        pass
    return [refs[frame["ref"]] for frame in socket.frames if frame["type"] == "message_ack"]


def received_messages(socket: RecordedSocket) -> list[tuple[int, str]]:
    """Return the received messages, in order of arrival."""
    return [(f["message"]["seq"], f["message"]["content"]) for f in socket.frames if f["type"] == "message"]


async def transcript(socket: RecordedSocket, session_id: str) -> list[tuple[int, str]]:
    """Sync from the start; return all messages."""
    found: list[tuple[int, str]] = []
    more = True
    while more:
        await socket.send({"type": "sync", "session_id": session_id, "after": found[-1][0] if found else 0})
        page = await socket.wait("sync")
        found += [(m["seq"], m["content"]) for m in page["messages"]]
        more = page["more"]
    return found


async def stored(world: World, session_id: str) -> list[tuple[int, str]]:
    """Return seq and content of a session's stored messages."""
    rows = await world.stack.sql(
        "SELECT seq, content FROM chat_messages WHERE session_id = $1::uuid ORDER BY seq", session_id
    )
    return [(row["seq"], row["content"]) for row in rows]


async def test_messages_and_events_cross_between_processes(world: World, second_port: int) -> None:
    customer, mitra = await world.customer(), at(await world.mitra(), second_port)
    phone, search = await customer.open("chat"), await customer.open("pairing")
    other, desk = await mitra.open("chat"), await mitra.open("pairing")
    payment = await world.paid(customer)
    session_id = payment["session_id"]
    await desk.wait("chat_request", where=lambda frame: frame["request"]["session_id"] == session_id)
    await desk.send({"type": "accept", "session_id": session_id})
    await desk.wait("accepted")
    await search.wait("pairing_status", where=lambda frame: frame["status"] == "paired")
    for socket in (phone, other):
        assert (await socket.wait("session_started"))["session"]["id"] == session_id
    await phone.say(session_id, "halo")
    assert (await other.wait("message"))["message"]["content"] == "halo"
    await other.send({"type": "typing", "session_id": session_id, "is_typing": True})
    await phone.wait("typing")
    await other.send({"type": "read", "session_id": session_id, "up_to": 1})
    assert (await phone.wait("message_status", where=lambda f: f["status"] == "read"))["up_to"] == 1
    await other.say(session_id, "hai")
    assert (await phone.wait("message"))["message"]["seq"] == 2
    await end_early(world, mitra, session_id)
    for socket in (phone, other):
        assert (await socket.wait("session_closing"))["session"]["ended_by"] == "mitra"


async def test_concurrent_messages_through_two_processes_keep_their_order(world: World, second_port: int) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    here = [await customer.open("chat"), await mitra.open("chat")]
    at(customer, second_port), at(mitra, second_port)
    there = [await customer.open("chat"), await mitra.open("chat")]
    async with asyncio.TaskGroup() as group:  # the customer writes through one process, the mitra through the other
        group.create_task(say_many(here[0], session_id, [f"c{n}" for n in range(150)]))
        group.create_task(say_many(there[1], session_id, [f"m{n}" for n in range(150)]))
    expected = await stored(world, session_id)
    assert [seq for seq, _ in expected] == list(range(1, 301))
    for letter in "cm":
        assert [word for _, word in expected if word[0] == letter] == [f"{letter}{n}" for n in range(150)]
    for socket in (here[1], there[0]):  # these sockets sent nothing, so they receive all messages
        await socket.wait("message", where=lambda frame: frame["message"]["seq"] == 300)
        assert received_messages(socket) == expected
    for socket, letter in ((here[0], "m"), (there[1], "c")):
        wanted = [(seq, word) for seq, word in expected if word[0] == letter]
        await socket.wait("message", where=lambda frame, last=wanted[-1][0]: frame["message"]["seq"] == last)
        assert received_messages(socket) == wanted


async def test_clients_of_a_killed_process_continue_at_the_other_without_loss(world: World, second_port: int) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    phone = await customer.open("chat")
    primary = mitra.addresses
    other = await at(mitra, second_port).open("chat")
    async with asyncio.TaskGroup() as group:
        sure = [
            group.create_task(say_many(phone, session_id, [f"c{n}" for n in range(100)])),
            group.create_task(say_many(other, session_id, [f"m{n}" for n in range(150)])),
        ]
        await phone.wait("message")  # the second process has stored some
        world.stack.kill("realtime2")
    acknowledged = {word for task in sure for word in task.result()}
    mitra.addresses = primary
    back = await mitra.open("chat")
    assert (await phone.say(session_id, "are you there?"))["type"] == "message_ack"
    await back.wait("message", where=lambda frame: frame["message"]["content"] == "are you there?")
    assert (await back.say(session_id, "yes"))["type"] == "message_ack"
    await phone.wait("message", where=lambda frame: frame["message"]["content"] == "yes")
    expected = await stored(world, session_id)
    assert [seq for seq, _ in expected] == list(range(1, len(expected) + 1))
    words = [word for _, word in expected]
    assert len(words) == len(set(words))
    assert acknowledged <= set(words)
    assert await transcript(back, session_id) == expected
    assert await transcript(phone, session_id) == expected
    assert received_messages(phone) == [(seq, word) for seq, word in expected if word[0] not in "ca"]


def envelopes(port: int, what: str) -> float:
    """Return how many envelopes a process has skipped, published or decoded."""
    return scrape(port)[f"sesi_bus_envelopes_{what}_total"][()]


@pytest.mark.slow
async def test_process_publishes_nothing_while_it_is_alone_and_everything_once_another_starts(world: World) -> None:
    stack, customer, mitra = world.stack, await world.customer(), await world.mitra()
    first, second = stack.ports["REALTIME"], free_port()
    session_id = await world.session(customer, mitra)
    phone, here = await customer.open("chat"), await mitra.open("chat")
    # Processes of earlier tests ended within the last minute.
    await stack.sql("DELETE FROM service_processes WHERE kind = 'realtime' AND NOT place LIKE $1", f"%:{first}")
    said = 0

    async def say() -> None:
        nonlocal said
        said += 1
        assert (await phone.say(session_id, f"{said}"))["seq"] == said

    before = envelopes(first, "skipped")
    async with asyncio.timeout(within(10)):
        while envelopes(first, "skipped") < before + 3:
            await say()
            await asyncio.sleep(0.02)
    try:
        stack.start("realtime", key="realtime2", wait=False, REALTIME_PORT=str(second))
        there, ends = None, time.monotonic() + within(10)
        while there is None:  # the chat goes on while the process starts
            await say()
            try:
                there = await at(mitra, second).open("chat")
            except OSError:
                assert time.monotonic() < ends
        since, decoded = said, envelopes(second, "decoded")
        for _ in range(50):
            await say()
        await there.wait("message", where=lambda frame: frame["message"]["seq"] == said)
        await here.wait("message", where=lambda frame: frame["message"]["seq"] == said)
        assert received_messages(there)[-50:] == [(seq, f"{seq}") for seq in range(since + 1, said + 1)]
        assert received_messages(here) == [(seq, f"{seq}") for seq in range(1, said + 1)]
        assert envelopes(second, "decoded") - decoded == 50  # none had to be read from the database
        stack.kill("realtime2")
        mitra.addresses = stack.addresses
        back = await mitra.open("chat")
        await say()
        assert (await back.wait("message"))["message"]["seq"] == said
    finally:
        if "realtime2" in stack.processes:
            stack.kill("realtime2")
            del stack.processes["realtime2"]
