"""No search is left for other tests' mitras to find."""

from collections.abc import AsyncIterator

import pytest

from tests.pairing.steps import leave_searches
from tests.stack import World


@pytest.fixture
async def world(world: World) -> AsyncIterator[World]:
    """The people of a test, at real speed."""
    yield world
    await leave_searches(world)


@pytest.fixture
async def fast_world(fast_world: World) -> AsyncIterator[World]:
    """The people of a test, at sixty times the speed."""
    yield fast_world
    await leave_searches(fast_world)
