"""A socket's messages are handled in order; too many that wait pause reading."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from realtime.connection import Connection
from realtime.inbox import CLOSED, MAX_UNFINISHED, PART, WAITING_BYTES, SocketInbox

RUNS = [asyncio.run, uvloop.run]
KERNEL = 1 << 20  # bytes that both ends of a socket pair may hold, at most
Run = Callable[[Coroutine[Any, Any, None]], None]


def text(payload: bytes) -> bytes:
    """Return a text frame as clients send it, of less than 64 KiB."""
    return b"\x81\xfe" + len(payload).to_bytes(2, "big") + b"\0\0\0\0" + payload


class Host:
    """What a connection needs of its process."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> object:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def server_time(self) -> str:
        return ""

    def wake(self, connection: Connection) -> None:
        raise AssertionError

    def note_sent(self, connection: Connection, event_ids: list[str]) -> None:
        raise AssertionError


class Receiver:
    """Handles messages that begin with "now" at once, and lets the others wait until `free` is set."""

    def __init__(self) -> None:
        self.handled: list[bytes] = []
        self.free = asyncio.Event()
        self.floods = 0
        self.end: tuple[int | None, bool] | None = None

    def take(self, connection: Connection, message: Any) -> Any:
        if message.data == b"end":
            return CLOSED
        if message.data.startswith(b"now"):
            self.handled.append(message.data)
            return None
        return message.data

    async def carry_out(self, connection: Connection, left: Any) -> None:
        await self.free.wait()
        self.handled.append(left)

    def flooded(self, connection: Connection) -> None:
        self.floods += 1

    def ended(self, connection: Connection, code: int | None, *, lost: bool) -> None:
        assert self.end is None
        self.end = code, lost
        connection.end()


class Scene:
    """A socket, and the peer that sends to it."""

    def __init__(self) -> None:
        self.host, self.receiver = Host(), Receiver()

    async def begin(self) -> None:
        ours, self.peer = socket.socketpair()
        for end in (ours, self.peer):
            end.setblocking(False)
        self.transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
        connection = Connection(self.host, self.transport, "chat", "203.0.113.1")
        self.inbox = SocketInbox(connection, self.receiver)
        self.transport.set_protocol(self.inbox)  # type: ignore[arg-type]

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.peer, data)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110 - nothing signals what the sockets do
                await asyncio.sleep(0.001)

    def close(self) -> None:
        self.transport.abort()
        self.peer.close()


@pytest.mark.parametrize("run", RUNS)
def test_messages_are_handled_in_order_and_a_socket_without_work_has_no_task(run: Run) -> None:
    async def play() -> None:
        scene = Scene()
        await scene.begin()
        sent = [b"now 1", b"wait 2", b"now 3", b"wait 4", b"wait 5", b"now 6"]
        await scene.send(b"".join(map(text, sent)))
        await scene.until(lambda: scene.receiver.handled == [b"now 1"])
        assert len(scene.host.tasks) == 1
        scene.receiver.free.set()
        await scene.until(lambda: scene.receiver.handled == sent)
        await scene.until(lambda: not scene.host.tasks)
        await scene.send(text(b"now 7"))
        await scene.until(lambda: scene.receiver.handled == [*sent, b"now 7"])
        assert not scene.host.tasks
        scene.close()

    run(play())


@pytest.mark.parametrize("run", RUNS)
def test_peer_that_sends_behind_a_waiting_message_is_not_read_without_end(run: Run) -> None:
    async def play() -> None:
        scene = Scene()
        await scene.begin()
        await scene.send(text(b"wait"))
        some = [b"now %04d" % number + b"." * 1000 for number in range(2_000)]
        everything = b"".join(map(text, some))
        assert len(everything) > KERNEL + 4 * WAITING_BYTES
        sending = asyncio.create_task(scene.send(everything))
        await asyncio.sleep(0.2)  # far more than a reader that is not paused needs
        assert not sending.done()
        assert scene.inbox._waiting_bytes <= 2 * WAITING_BYTES + PART * 128
        assert scene.receiver.handled == []
        scene.receiver.free.set()
        await sending
        await scene.until(lambda: len(scene.receiver.handled) == len(some) + 1)
        assert scene.receiver.handled == [b"wait", *some]
        assert scene.receiver.floods == 0
        scene.close()

    run(play())


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(
    ("last", "end"),
    [(text(b"end"), (None, False)), (b"\x83\x80\0\0\0\0", (1002, False)), (b"", (None, True))],
    ids=["closed", "violation", "lost"],
)
def test_socket_ends_once_after_the_messages_before_its_end(
    run: Run, last: bytes, end: tuple[int | None, bool]
) -> None:
    async def play() -> None:
        scene = Scene()
        await scene.begin()
        await scene.send(text(b"wait 1") + text(b"now 2") + last)
        if last:  # the bytes behind the end are ignored
            await scene.send(b"\x01\xfe\x3f\xff\0\0\0\0" + b"x" * 16_383 + text(b"now 3") * 10_000)
        if not last:
            scene.peer.close()
        await asyncio.sleep(0.01)
        assert scene.receiver.end is None
        scene.receiver.free.set()
        await scene.until(lambda: scene.receiver.end is not None)
        assert scene.receiver.end == end
        assert scene.receiver.floods == 0
        assert scene.receiver.handled == [b"wait 1", b"now 2"]
        scene.close()
        await asyncio.sleep(0.01)

    run(play())


@pytest.mark.parametrize("run", RUNS)
def test_fragments_without_an_end_are_a_flood(run: Run) -> None:
    async def play() -> None:
        scene = Scene()
        await scene.begin()
        await scene.send(b"\x01\x80\0\0\0\0" + b"\x00\x80\0\0\0\0" * (MAX_UNFINISHED // 6 + 1))
        await scene.until(lambda: scene.receiver.floods > 0)
        scene.close()

    run(play())
