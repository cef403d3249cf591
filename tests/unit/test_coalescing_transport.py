"""The transport that joins writes copes with clients that disconnect in between."""

import asyncio
from collections.abc import Callable
from typing import Any

import uvloop

from api.edge.limited_connection import CoalescingTransport

Act = Callable[[CoalescingTransport, Any], None]


class Server(asyncio.Protocol):
    """Acts on a connection's first bytes with the joined and the plain transport, and writes once more when it is gone."""

    def __init__(self, act: Act, closed: asyncio.Event) -> None:
        self._act = act
        self.closed = closed

    def connection_made(self, transport: Any) -> None:
        self._plain = transport
        self._joined = CoalescingTransport(transport, asyncio.get_running_loop(), lambda: False)

    def data_received(self, data: bytes) -> None:
        self._act(self._joined, self._plain)

    def connection_lost(self, exc: Exception | None) -> None:
        self._joined.write(b"too late")
        asyncio.get_running_loop().call_soon(self.closed.set)


def answer_of(act: Act) -> tuple[bytes, list[dict[str, Any]]]:
    """Return what a client received and the errors of the event loop."""
    errors: list[dict[str, Any]] = []

    async def play() -> bytes:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context))
        closed = asyncio.Event()
        server = await loop.create_server(lambda: Server(act, closed), "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"hello")
        try:
            return await asyncio.wait_for(reader.read(), 10)
        except ConnectionError:
            return b""
        finally:
            writer.close()
            await asyncio.wait_for(closed.wait(), 10)
            server.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(play()), errors


def test_writes_of_one_iteration_arrive_in_order_before_the_close() -> None:
    def act(joined: CoalescingTransport, _: Any) -> None:
        joined.write(b"head ")
        joined.write(b"body")
        joined.close()

    assert answer_of(act) == (b"head body", [])


def test_answer_to_a_connection_that_is_closed_is_dropped() -> None:
    assert answer_of(lambda _, plain: plain.abort()) == (b"", [])
