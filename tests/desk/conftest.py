"""The worlds of these tests: many codes from one address, and no search is left for other tests' mitras to find."""

from collections.abc import AsyncIterator

import pytest

from tests.api.conftest import leave_searches
from tests.stack import World


@pytest.fixture
async def world(world: World) -> AsyncIterator[World]:
    """The people of a test, at real speed."""
    await world.config("otp_max_per_ip_per_hour", 1_000_000)
    yield world
    await leave_searches(world)


@pytest.fixture
async def fast_world(fast_world: World) -> AsyncIterator[World]:
    """The people of a test, at sixty times the speed."""
    await fast_world.config("otp_max_per_ip_per_hour", 1_000_000)
    yield fast_world
    await leave_searches(fast_world)
