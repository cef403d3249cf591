"""A stopping process closes its sockets in portions, so that their clients do not all reconnect at once."""

import asyncio
import signal
import time
from collections.abc import Iterator

import aiohttp
import pytest

from realtime.connections import PORTION, PORTION_EVERY_S, SOCKETS_A_USER
from tests.sockets.plain_socket import PlainSocket, another_realtime, at, bare, bare_and_known
from tests.stack import Stack, World
from tools.driving.device import Device

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PATHS = ("chat", "pairing")
PORTIONS = 3
USERS = (PORTIONS - 1) * PORTION // (SOCKETS_A_USER * len(PATHS)) + 1


@pytest.fixture
def own_port(stack: Stack) -> Iterator[int]:
    """Yield the port of a realtime process that the test may stop."""
    with another_realtime(stack, "drained") as port:
        yield port


async def crowd(world: World, port: int) -> tuple[Device, list[PlainSocket]]:
    """Open as many sockets as `PORTIONS` portions need; return one of their clients, and all sockets."""
    sockets = []
    for _ in range(USERS):
        client = at(await world.customer(), port)
        opening = [bare_and_known(client, path) for path in PATHS for _ in range(SOCKETS_A_USER)]
        sockets += [socket for socket, _ in await asyncio.gather(*opening)]
    return client, sockets


async def test_sockets_of_a_stopping_process_close_with_1012_in_portions(world: World, own_port: int) -> None:
    client, sockets = await crowd(world, own_port)
    closing = [asyncio.create_task(socket.code()) for socket in sockets]
    began = time.monotonic()
    world.stack.processes["drained"].send_signal(signal.SIGTERM)
    await asyncio.wait(closing, return_when=asyncio.FIRST_COMPLETED)
    with pytest.raises((aiohttp.WSServerHandshakeError, aiohttp.ClientConnectionError)):
        await bare(client)
    codes = await asyncio.gather(*closing)
    # A busy client may see the closes late, even all at once, but never too early.
    assert time.monotonic() - began >= (PORTIONS - 1) * PORTION_EVERY_S
    assert set(codes) == {1012}


async def test_second_signal_closes_the_remaining_portions_at_once(world: World, own_port: int) -> None:
    _, sockets = await crowd(world, own_port)
    closing = [asyncio.create_task(socket.code()) for socket in sockets]
    process = world.stack.processes["drained"]
    process.send_signal(signal.SIGTERM)
    await asyncio.wait(closing, return_when=asyncio.FIRST_COMPLETED)
    process.send_signal(signal.SIGTERM)
    assert set(await asyncio.gather(*closing)) == {1012}
    assert await asyncio.to_thread(process.wait, 10) == 0


async def test_socket_that_has_not_authenticated_is_closed_with_1012_too(world: World, own_port: int) -> None:
    socket = await bare(at(await world.customer(), own_port))
    process = world.stack.processes["drained"]
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)  # without waiting for the handshakes of others
    assert await socket.code() == 1012
    assert await asyncio.to_thread(process.wait, 10) == 0
