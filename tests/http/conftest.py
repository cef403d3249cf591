"""Fixtures of the tests of routes: worlds without the limit of codes for an address, and a plain HTTP client."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.stack import World


@pytest.fixture
async def world(world: World) -> World:
    """Return a World at real speed."""
    await world.config("otp_max_per_ip_per_hour", 1_000_000)
    return world


@pytest.fixture
async def fast_world(fast_world: World) -> World:
    """Return a World at sixty times real speed."""
    await fast_world.config("otp_max_per_ip_per_hour", 1_000_000)
    return fast_world


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """Open a client session with any number of connections; a request may take a minute."""
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as made:
        yield made
