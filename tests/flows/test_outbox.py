"""A reader who is slow but keeps reading gets everything; a reader who stops reading is disconnected
(docs/security.md).
"""

import asyncio
import contextlib
import socket

from core.bus.subscription import Subscription
from realtime.connection import MAX_FRAMES, Connection
from realtime.connections import Connections
from realtime.event_trail import SentEvents
from tests.flows.conftest import Harness

FRAME = b'{"type":"typing","pad":"' + b"x" * 1000 + b'"}'


async def _connected(harness: Harness) -> tuple[Connection, socket.socket]:
    """Return a connection with the smallest kernel buffers, and its other end, which reads on demand."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    theirs.setblocking(False)
    ours.setblocking(False)
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    heard = Subscription(harness.runtime.bus, lambda _channel, _data: None, lambda: None)
    connection = Connection(
        Connections(harness.runtime, heard, SentEvents(harness.runtime)), transport, "chat", "203.0.113.1"
    )
    connection.ready = True
    return connection, theirs


async def _say(connection: Connection) -> None:
    connection.put(FRAME)
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def test_slow_reader_that_keeps_reading_stays_connected(harness: Harness) -> None:
    async def play() -> None:
        connection, reader = await _connected(harness)
        while not connection.transport.get_write_buffer_size():
            await _say(connection)
        for _ in range(4 * MAX_FRAMES):
            await _say(connection)
            while connection.transport.get_write_buffer_size() > 8 * len(FRAME):
                with contextlib.suppress(BlockingIOError):  # the loop has not written anything yet
                    reader.recv(4096)
                await asyncio.sleep(0)
            assert connection.transport.get_write_buffer_size() > 0
            assert not connection.closing
        connection.transport.abort()
        reader.close()

    harness.run(play())


def test_reader_that_reads_nothing_is_disconnected_at_the_frame_limit(harness: Harness) -> None:
    async def play() -> None:
        connection, reader = await _connected(harness)
        while not connection.transport.get_write_buffer_size():
            await _say(connection)
        said = 0
        while not connection.closing:
            await _say(connection)
            said += 1
        assert MAX_FRAMES - 3 <= said <= MAX_FRAMES + 1
        connection.end()
        await asyncio.sleep(0)
        connection.transport.abort()
        reader.close()

    harness.run(play())
