"""The stop of an api process: a request on its way gets its answer. A proxy repeats no POST whose connection was reset."""

import asyncio
import socket

import pytest
from litestar import Litestar

from api.edge.gatekeeper import Gatekeeper
from api.server import ListenerServer, listen, server_of
from core.base.clock import real_sleep
from core.runtime.container import Runtime
from core.security.connections import ConnectionCounts
from tests.flows.conftest import Harness

REQUEST = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


async def started(runtime: Runtime, *, accepts: bool) -> tuple[ListenerServer, socket.socket]:
    """Return a server with its listening socket. Unless it `accepts`, its connections stay with the kernel."""
    sock = listen("127.0.0.1", 0, "INTERNAL_PORT")
    app = Gatekeeper(Litestar(openapi_config=None), runtime, listener="internal", cors=None)
    server = server_of(app, runtime, ConnectionCounts(runtime.settings))
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    server.servers = []
    if accepts:
        await server.startup(sockets=[sock])
    return server, sock


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Return the first line of the answer. Raises ConnectionError if the connection was reset."""
    async with asyncio.timeout(10):
        return await reader.readline()


def test_request_of_a_connection_that_was_not_accepted_is_answered(harness: Harness) -> None:
    async def play() -> bytes:
        server, sock = await started(harness.runtime, accepts=False)
        reader, writer = await asyncio.open_connection(*sock.getsockname())
        writer.write(REQUEST)
        await writer.drain()
        await server.shutdown([sock])
        first = await answer(reader)
        writer.close()
        return first

    assert harness.run(play()).startswith(b"HTTP/1.1 404")


def test_first_request_of_a_new_connection_is_answered_after_the_listener_is_closed(harness: Harness) -> None:
    async def play() -> bytes:
        server, sock = await started(harness.runtime, accepts=True)
        address = sock.getsockname()
        reader, writer = await asyncio.open_connection(*address)
        async with asyncio.timeout(10):
            while not server.server_state.connections:
                await real_sleep(0)
        stop = asyncio.create_task(server.shutdown([sock]))
        while sock.fileno() != -1:
            await real_sleep(0)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)
        writer.write(REQUEST)
        first = await answer(reader)
        writer.close()
        await stop
        return first

    assert harness.run(play()).startswith(b"HTTP/1.1 404")
