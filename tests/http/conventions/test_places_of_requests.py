"""A request occupies one of the bounded slots only while the service works on it (docs/security.md)."""

import asyncio
import socket
from collections.abc import Iterator

import aiohttp
import pytest

from api.edge.admission import REQUESTS
from tests.access.wire import ask
from tests.stack import World

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

MANY = REQUESTS + 40
LARGE, ANSWERS = "/docs/swagger-ui-bundle.js", 3  # 1.5 MB each; the service has it in memory once
WAITING = "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@pytest.fixture
def connections(world: World) -> Iterator[list[socket.socket]]:
    """Open more connections to the public listener than there are slots, each with small buffers for answers."""
    made = []
    for _ in range(MANY):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sock.connect(("127.0.0.1", world.stack.ports["PUBLIC"]))
        made.append(sock)
    yield made
    for sock in made:
        sock.close()


def send(sock: socket.socket, number: int, request: str) -> None:
    """Send a request from an address that no other connection has."""
    head = f"{request} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nX-Forwarded-For: 10.9.{number // 200}.{number % 200}\r\n\r\n"
    sock.sendall(head.encode())


async def served(world: World) -> int:
    """Return the status of a request that needs a slot and no database."""
    async with aiohttp.ClientSession() as http:
        return (await ask(http, f"{world.stack.addresses.public}/openapi.json")).status


async def test_clients_that_do_not_read_answers_occupy_no_slots(world: World, connections: list[socket.socket]) -> None:
    for number, sock in enumerate(connections):
        # More answers than a connection's buffers hold: the last ones wait until the client reads the first.
        for _ in range(ANSWERS):
            send(sock, number, f"GET {LARGE}")

    def begun() -> bool:
        return all(sock.recv(16).startswith(b"HTTP/1.1 200") for sock in connections)

    assert await asyncio.to_thread(begun)
    assert await served(world) == 200


async def test_disconnected_clients_free_their_slots(world: World, connections: list[socket.socket]) -> None:
    async with world.stack.transaction() as holder:
        await holder.execute("LOCK TABLE customers IN ACCESS EXCLUSIVE MODE")
        for number, sock in enumerate(connections):
            send(sock, number, "POST /api/shared/auth/anonymous")

        async def full() -> int:
            return await served(world)

        assert await world.until(full, lambda status: status == 503)
        for sock in connections:
            sock.close()
    await world.until(full, lambda status: status == 200)
