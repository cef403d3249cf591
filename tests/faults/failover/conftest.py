"""A service over a primary and its standby, and its users; each test has its own."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.faults.failover.cluster import Pair
from tests.stack import World


@pytest.fixture
def synchronous() -> bool:
    """Return whether a commit waits for the standby; a module may override it."""
    return True


@pytest.fixture
def pair(synchronous: bool) -> Iterator[Pair]:
    """Yield a service over a primary and its standby."""
    made = Pair(synchronous=synchronous)
    try:
        made.stack.start_all()
        yield made
    finally:
        made.close()


@pytest.fixture
async def failover_world(pair: Pair) -> AsyncIterator[World]:
    """Yield the users of the test; at the end run the audit."""
    made = World(pair.stack)
    yield made
    await made.close()
