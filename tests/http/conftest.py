"""Fixtures of the tests of routes: worlds without the limit of codes for an address, and a plain HTTP client."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.stack import World

LIMIT = "otp_max_per_ip_per_hour"


async def lift_limit_of_codes(world: World) -> None:
    """Allow any number of codes for an address. Most tests find the limit lifted by an earlier one."""
    lifted = "SELECT FROM app_config WHERE key = $1 AND value::text = '1000000'"
    if not await world.stack.sql(lifted, LIMIT):
        await world.config(LIMIT, 1_000_000)


@pytest.fixture
async def world(world: World) -> World:
    """Return a World at real speed."""
    await lift_limit_of_codes(world)
    return world


@pytest.fixture
async def fast_world(fast_world: World) -> World:
    """Return a World at sixty times real speed."""
    await lift_limit_of_codes(fast_world)
    return fast_world


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """Open a client session with any number of connections; a request may take a minute."""
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as made:
        yield made
