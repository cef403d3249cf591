"""A synchronous standby replaces a primary that dies, freezes or is cut off: nothing is lost, and the gap is short.

DATABASE_URL names a silent host first in every test.
"""

from collections.abc import AsyncIterator, Callable

import pytest

from tests.faults import people as app
from tests.faults.failover.cluster import Pair
from tests.faults.failover.load import (
    GAP_S,
    check_all_stored,
    no_process_restarts,
    phones_show_what_is_stored,
    under_load,
)
from tests.stack import World, within

pytestmark = pytest.mark.anyio
FAULTS = {"killed": Pair.kill, "frozen": Pair.freeze, "isolated": Pair.isolate}


@pytest.fixture
async def failover_world(pair: Pair) -> AsyncIterator[World]:
    """Yield the users of the test; at the end run the audit."""
    made = World(pair.stack)
    yield made
    await made.leave_searches()
    await made.close()


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_primary_with_a_synchronous_standby_fails_over_without_loss(
    pair: Pair, failover_world: World, fault: Callable[[Pair], None]
) -> None:
    async with under_load(failover_world) as load:
        with no_process_restarts(pair):
            fault(pair)
            promoted_at = await pair.promote()
            await load.acknowledged(60)
            await load.end()
            assert load.longest_gap(promoted_at) < within(GAP_S)
            await check_all_stored(pair, load, same_ids=True)
            await phones_show_what_is_stored(load)
            await app.whole_session(failover_world)
