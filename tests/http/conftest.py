"""Worlds whose limit of codes for one address is out of the way."""

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
