"""A service over a primary and its standby, and its people; each test has its own."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.ha.cluster import Pair
from tests.stack import World


@pytest.fixture
def synchronous() -> bool:
    """Whether a commit waits for the standby; a module may say otherwise."""
    return True


@pytest.fixture
def pair(synchronous: bool) -> Iterator[Pair]:
    """A service over a primary and its standby."""
    made = Pair(synchronous=synchronous)
    try:
        made.stack.start_all()
        yield made
    finally:
        made.close()


@pytest.fixture
async def people(pair: Pair) -> AsyncIterator[World]:
    """Its people; in the end the books are right."""
    made = World(pair.stack)
    yield made
    await made.close()
