"""Sockets that authenticate while something else happens: the caller's ids are read then, and that takes a moment."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from tests.accounts.people import anonymous
from tests.realtime.bare import Bare, bare
from tests.stack import World
from tools.client import Client

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def nobody_reads_customers(world: World) -> AsyncIterator[None]:
    """The database does not say who belongs to whom."""
    async with world.stack.transaction() as holder:
        await holder.execute("LOCK TABLE customers IN ACCESS EXCLUSIVE MODE")
        yield


async def waits_for_ids(world: World, client: Client) -> Bare:
    """A socket whose token was sent, and whose ids are being read."""
    socket = await bare(client)
    await socket.say({"type": "auth", "token": client.access_token})
    sql = "SELECT 1 FROM pg_locks WHERE relation = 'customers'::regclass AND NOT granted"
    await world.until(lambda: world.stack.sql(sql), bool, timeout=2)
    return socket


async def test_a_device_that_ends_while_its_socket_authenticates_gets_none(world: World) -> None:
    client = await anonymous(world)
    async with nobody_reads_customers(world):
        socket = await waits_for_ids(world, client)
        await client.call("POST", "/api/shared/auth/logout")
        await asyncio.sleep(1.2)  # every process has heard of it
    assert await socket.code(timeout=3) == 4401


async def test_a_socket_that_the_database_does_not_answer_may_come_again(world: World) -> None:
    client = await anonymous(world)
    async with nobody_reads_customers(world):
        socket = await waits_for_ids(world, client)
        assert await socket.code(timeout=5) == 1012  # 4401 would say that the token is no good
