"""A service on Valkey with sentinels and on a cluster: the quick faults. `make ha` runs all of them."""

import pytest

from tests.ha.valkey import CLUSTER, SENTINELS, deployed
from tests.stack import within

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("connection", "fault"), [(SENTINELS, "primary killed (SIGKILL)"), (CLUSTER, "primary and its replica killed")]
)
async def test_users_on_two_hubs_read_each_other_while_valkey_fails(connection: str, fault: str) -> None:
    async with deployed(connection) as deployment:
        outcome = await deployment.measure(fault)
    assert outcome.good, outcome
    assert outcome.longest_gap_s < within(1.5)  # messages are stored without Valkey
    assert outcome.latest_delivery_s < within(4.0)  # and read from the database without the bus
