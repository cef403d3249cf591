"""The worlds of these tests: many codes from one address."""

import pytest

from tests.stack import World


@pytest.fixture
async def world(world: World) -> World:
    """The people of a test, at real speed."""
    await world.config("otp_max_per_ip_per_hour", 1_000_000)
    return world


@pytest.fixture
async def fast_world(fast_world: World) -> World:
    """The people of a test, at sixty times the speed."""
    await fast_world.config("otp_max_per_ip_per_hour", 1_000_000)
    return fast_world
