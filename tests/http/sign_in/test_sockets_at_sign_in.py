"""Sockets that authenticate while other things happen: reading the caller's ids from the database takes a moment."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from tests.http.sign_in.people import anonymous
from tests.sockets.plain_socket import PlainSocket, bare
from tests.stack import World
from tools.driving.device import Device

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def customers_blocked(world: World) -> AsyncIterator[None]:
    """Block reads of the customers table."""
    async with world.stack.transaction() as holder:
        await holder.execute("LOCK TABLE customers IN ACCESS EXCLUSIVE MODE")
        yield


async def waits_for_ids(world: World, client: Device) -> PlainSocket:
    """Return a socket that has sent its token and waits for its ids."""
    socket = await bare(client)
    await socket.say({"type": "auth", "token": client.access_token})
    sql = "SELECT 1 FROM pg_locks WHERE relation = 'customers'::regclass AND NOT granted"
    await world.until(lambda: world.stack.sql(sql), bool)
    return socket


async def test_device_ended_during_socket_authentication_is_closed_with_4401(world: World) -> None:
    client = await anonymous(world)
    async with customers_blocked(world):
        socket = await waits_for_ids(world, client)
        await client.call("POST", "/api/shared/auth/logout")
        await asyncio.sleep(1.2)  # until every process knows
    assert await socket.code() == 4401


async def test_socket_authentication_without_database_closes_with_1012(world: World) -> None:
    client = await anonymous(world)
    async with customers_blocked(world):
        socket = await waits_for_ids(world, client)
        assert await socket.code() == 1012  # not 4401, which would mean that the token is invalid
