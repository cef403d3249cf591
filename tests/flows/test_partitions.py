"""Months are made ahead, by any number of processes, while others write (core/privacy/partition_upkeep.py)."""

import asyncio
import datetime as dt
import itertools

import asyncpg
import pytest

from core.base import ids
from core.base.errors import Unavailable
from core.base.id_ranges import first_id, month_of, months_after
from core.payments.webhooks import receive as webhook_receive
from core.privacy import partition_upkeep
from core.storage import partitions
from core.storage.partitions import AHEAD, PARTITIONED
from core.telemetry import metrics
from tests.clock import HandClock
from tests.flows.conftest import Harness

pytestmark = pytest.mark.slow

CALL = "INSERT INTO webhook_logs (id, received_at, source_ip, token_valid, raw_body) VALUES ($1, $2, '127.0.0.1', true, '')"
PLACE = "SELECT tableoid::regclass::text FROM webhook_logs WHERE id = $1"
OPTIONS = "SELECT array_agg(DISTINCT c.reloptions) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = $1::text::regclass"
INDEXES = """SELECT count(*) FROM pg_index i JOIN pg_inherits h ON h.inhrelid = i.indrelid
  WHERE h.inhparent = 'chat_request_notifications'::regclass AND i.indisvalid GROUP BY i.indrelid"""


async def ahead(harness: Harness) -> dict[str, int]:
    """Return how many months after the present one have partitions."""
    runtime = harness.runtime
    return partitions.months_ahead(await partitions.partitions(runtime.db), runtime.now())


@pytest.fixture
def behind(empty_harness: Harness) -> Harness:
    """Return a database without the last month of each table."""
    runtime = empty_harness.runtime
    last = months_after(month_of(runtime.now()), AHEAD)

    async def drop() -> None:
        async with runtime.db.pool.acquire() as connection:
            for table in sorted(PARTITIONED):
                await connection.execute(f"DROP TABLE {table}_{last:%Y_%m}")

    empty_harness.run(drop())
    return empty_harness


def test_months_are_made_ahead_when_the_month_changes(behind: Harness) -> None:
    harness, runtime = behind, behind.runtime
    month = months_after(month_of(runtime.now()), 1)
    clock = runtime.clock = HandClock(month - dt.timedelta(seconds=1))

    async def play() -> None:
        assert await partition_upkeep.make_ahead(runtime)
        assert await ahead(harness) == dict.fromkeys(PARTITIONED, AHEAD)
        assert await partition_upkeep.make_ahead(runtime) == []
        clock.advance(1)
        assert await ahead(harness) == dict.fromkeys(PARTITIONED, AHEAD - 1)
        last = months_after(month, AHEAD)
        made = await partition_upkeep.make_ahead(runtime)
        assert sorted(made) == [f"{table}_{last:%Y_%m}" for table in sorted(PARTITIONED)]
        clock.advance(5 * 31 * 86_400)  # no jobs process ran for five months
        await partition_upkeep.keep_ahead(runtime)
        assert await ahead(harness) == dict.fromkeys(PARTITIONED, AHEAD)
        value = metrics.REGISTRY.get_sample_value("sesi_partition_months_ahead", {"table": "chat_messages"})
        assert value == AHEAD

    harness.run(play())


def test_row_is_stored_in_the_partition_of_its_month(empty_harness: Harness) -> None:
    runtime = empty_harness.runtime

    async def play() -> None:
        await partition_upkeep.make_ahead(runtime)
        month = months_after(month_of(runtime.now()), AHEAD)
        after = months_after(month, 1)
        first, last = ids.id_of(month, b""), ids.id_of(after - dt.timedelta(milliseconds=1), b"")
        for call in (first, last):
            await runtime.db.fetch(CALL, call, month)
            assert await runtime.db.fetchval(PLACE, call) == f"webhook_logs_{month:%Y_%m}"
        with pytest.raises(asyncpg.CheckViolationError, match="no partition"):
            await runtime.db.fetch(CALL, ids.id_of(after, b""), after)

    empty_harness.run(play())


def test_partition_has_the_indexes_of_its_table_and_the_storage_options_of_the_one_before(
    empty_harness: Harness,
) -> None:
    runtime = empty_harness.runtime

    async def play() -> None:
        await partition_upkeep.make_ahead(runtime)
        assert await runtime.db.fetchval(OPTIONS, "chat_messages") == [["fillfactor=80"]]
        counts = {row[0] for row in await runtime.db.fetch(INDEXES)}
        assert counts == {9}

    empty_harness.run(play())


def test_processes_that_make_the_same_months_make_each_once(empty_harness: Harness) -> None:
    runtime = empty_harness.runtime
    runtime.clock = HandClock(runtime.now() + dt.timedelta(days=200))

    async def play() -> None:
        made = await asyncio.gather(*(partition_upkeep.make_ahead(runtime) for _ in range(4)), return_exceptions=True)
        # One that waits for the others for too long leaves the rest to its next attempt.
        assert all(isinstance(one, list | Unavailable) for one in made)
        await partition_upkeep.make_ahead(runtime)
        names = [name for one in made if isinstance(one, list) for name in one]
        assert len(names) == len(set(names))
        found = await partitions.partitions(runtime.db)
        for table in PARTITIONED:
            mine = [one for one in found if one.of == table]
            assert all(earlier.end == later.begin for earlier, later in itertools.pairwise(mine))
        assert await ahead(empty_harness) == dict.fromkeys(PARTITIONED, AHEAD)

    empty_harness.run(play())


def test_open_reads_and_writes_of_a_table_do_not_hold_up_its_next_month(empty_harness: Harness) -> None:
    runtime = empty_harness.runtime

    async def play() -> None:
        async with runtime.db.pool.acquire() as other, other.transaction():
            await other.execute(CALL, ids.new_id(), runtime.now())
            await other.fetch(
                "SELECT count(*) FROM webhook_logs JOIN chat_messages USING (id) JOIN chat_sessions USING (id)"
            )
            await partition_upkeep.make_ahead(runtime)
        assert await ahead(empty_harness) == dict.fromkeys(PARTITIONED, AHEAD)

    empty_harness.run(play())


def test_month_waits_for_the_next_sweep_while_a_referenced_table_is_locked(behind: Harness) -> None:
    runtime = behind.runtime

    async def play() -> None:
        async with runtime.db.pool.acquire() as other, other.transaction():
            await other.execute("LOCK TABLE chat_sessions IN ROW EXCLUSIVE MODE")
            with pytest.raises(Unavailable):
                await partition_upkeep.make_ahead(runtime)
            await partition_upkeep.keep_ahead(runtime)
        assert (await ahead(behind))["chat_request_notifications"] < AHEAD
        await partition_upkeep.keep_ahead(runtime)
        assert await ahead(behind) == dict.fromkeys(PARTITIONED, AHEAD)

    behind.run(play())


def test_table_without_partitions_has_none_ahead() -> None:
    assert partitions.months_ahead([], dt.datetime.now(dt.UTC)) == dict.fromkeys(PARTITIONED, -1)


def test_bounds_of_neighbours_meet(empty_harness: Harness) -> None:
    runtime = empty_harness.runtime

    async def play() -> None:
        await partition_upkeep.make_ahead(runtime)
        last = months_after(month_of(runtime.now()), AHEAD + 1)
        for table in PARTITIONED:
            found = [one for one in await partitions.partitions(runtime.db) if one.of == table]
            assert [one.begin for one in found] == [None, *(one.end for one in found[:-1])]
            assert found[-1].end == first_id(last)

    empty_harness.run(play())


def test_old_call_without_a_result_is_stamped_by_the_rarer_sweep(empty_harness: Harness) -> None:
    runtime = empty_harness.runtime
    results = "SELECT array_agg(processing_result ORDER BY id) FROM webhook_logs"
    moments = [months_after(month_of(runtime.now()), -3), runtime.now() - dt.timedelta(days=2)]

    async def play() -> None:
        for at in moments:
            await runtime.db.fetch(CALL, ids.id_of(at, b"call"), at)
        await webhook_receive.close_abandoned_calls(runtime)
        assert await runtime.db.fetchval(results) == [None, "error"]
        await webhook_receive.close_old_calls(runtime)
        assert await runtime.db.fetchval(results) == ["error", "error"]

    empty_harness.run(play())
