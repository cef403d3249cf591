"""The rate limit of messages in a session, over sockets and over REST; refused messages keep their order."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.sockets.plain_socket import at, bare_and_known
from tests.stack import Stack, World, new_id, refused
from tools.driving.device import Device
from tools.driving.throwaway import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def limited_port(stack: Stack) -> Iterator[int]:
    """Yield the port of a realtime process with the default rate of messages."""
    port = free_port()
    env = {"REALTIME_PORT": str(port), "WS_MESSAGES_PER_SECOND": "5", "WS_MESSAGES_BURST": "30"}
    stack.start("realtime", key="limited", **env)  # type: ignore[arg-type]  # no setting is called `wait`
    stack.wait_ready("realtime", port=port)
    yield port
    stack.stop("limited")
    del stack.processes["limited"]


async def a_chat(world: World, port: int) -> tuple[Device, Device, str]:
    """Return a customer and a mitra in a chat, both at a process with the default rate, and its id."""
    customer, mitra = at(await world.customer(), port), at(await world.mitra(), port)
    return customer, mitra, await world.session(customer, mitra)


def message(session_id: str, words: str) -> dict[str, str]:
    """Return a message frame whose `ref` is its content."""
    return {
        "type": "send_message",
        "session_id": session_id,
        "client_message_id": new_id(),
        "content": words,
        "ref": words,
    }


async def stored(world: World, session_id: str) -> list[str]:
    """Return the contents of a session's messages, in order."""
    rows = await world.stack.sql(
        "SELECT content FROM chat_messages WHERE session_id = $1::uuid ORDER BY seq", session_id
    )
    return [row["content"] for row in rows]


async def test_message_over_the_rate_is_refused_and_later_ones_wait_for_it(world: World, limited_port: int) -> None:
    customer, mitra, session_id = await a_chat(world, limited_port)
    socket, _ = await bare_and_known(customer)
    frames = [message(session_id, str(number)) for number in range(80)]

    async def answers(count: int) -> list[tuple[str, str | None]]:
        found: list[tuple[str, str | None]] = []
        while len(found) < count:
            heard = await socket.next_frame()
            if "ref" in heard:
                assert heard.get("retry_after_seconds", 1) == 1
                found.append((heard["ref"], heard.get("code")))
        return found

    began = time.monotonic()
    for frame in frames:
        await socket.say(frame)
    first = dict(await answers(len(frames)))
    refilled = 5 * (time.monotonic() - began)
    taken = [frame for frame in frames if first[frame["ref"]] is None]
    late = frames[len(taken) :]
    assert 30 <= len(taken) <= 30 + refilled
    assert len(late) >= 3
    assert {first[frame["ref"]] for frame in late} == {"TOO_FAST"}
    await asyncio.sleep(1.1)  # the rate allows five
    newer = message(session_id, "newer")
    for frame in (newer, late[1], late[0], late[1], late[2]):
        await socket.say(frame)
    second = await answers(5)  # refusals arrive at once, acknowledgements after the commit
    assert [ref for ref, code in second if code == "TOO_FAST"] == ["newer", late[1]["ref"]]
    assert [ref for ref, code in second if code is None] == [frame["ref"] for frame in late[:3]]
    assert await stored(world, session_id) == [frame["content"] for frame in (*taken, *late[:3])]
    desk, _ = await bare_and_known(mitra)  # the other party has a separate rate limit
    await desk.say(message(session_id, "hai"))
    assert (await desk.next_frame_of("message_ack"))["seq"] == len(taken) + 4


async def test_phone_over_the_rate_sends_everything_in_order(world: World, limited_port: int) -> None:
    customer, _, session_id = await a_chat(world, limited_port)
    phone = await customer.start("chat")
    try:
        await phone.until(lambda: session_id in phone.sessions)
        words = [str(number) for number in range(45)]
        async with asyncio.TaskGroup() as group:
            for word in words:
                group.create_task(phone.say(session_id, word))
                await asyncio.sleep(0)  # keeps this order
        assert await stored(world, session_id) == words
        await phone.until(lambda: len(phone.transcript(session_id)) == len(words))
        assert [one["content"] for one in phone.transcript(session_id)] == words
    finally:
        await phone.stop()


async def test_messages_over_rest_have_the_same_rate() -> None:
    stack = Stack()
    world = World(stack)
    try:
        customer, mitra = await world.customer(), await world.mitra()
        session_id = await world.session(customer, mitra)
        path = f"/api/shared/chat/sessions/{session_id}/messages"
        for number in range(30):
            await customer.post(path, {"client_message_id": new_id(), "content": str(number)})

        async def many() -> None:
            for _ in range(30):  # one call at a time may be slower than the rate
                more = [{"client_message_id": new_id(), "content": "more"} for _ in range(10)]
                await asyncio.gather(*(customer.post(path, body) for body in more))

        error = await refused(many(), 429, "TOO_FAST")
        assert error["retry_after_seconds"] == 1
        assert (await mitra.post(path, {"client_message_id": new_id(), "content": "hai"}))["content"] == "hai"
    finally:
        await world.close()
        stack.close()
