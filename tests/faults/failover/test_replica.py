"""DATABASE_READ_URL: reports are read from a replica that is current, else from the primary."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from core.storage.database import Database
from core.storage.reports import MOST_LAG_S, Reports
from tests.faults import people as app
from tests.faults.failover.cluster import Pair
from tests.faults.proxy import Mode, Proxy
from tests.stack import Stack, World

pytestmark = pytest.mark.anyio
PORT = "SELECT inet_server_port() AS port"
LISTS = ("/internal/mitra-activity/log", "/internal/mitra-activity/summary", "/internal/audit-log")
AUDIT = "/internal/ledger/audit"
LAG = "replica_lag_seconds"


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Yield a primary and a replica that does not delay its commits; the service reads reports from the replica."""
    made = Pair(synchronous=False)
    try:
        made.to_replica = Proxy(made.standby_url)
        made.stack.env |= {"DATABASE_URL": made.primary_url, "DATABASE_READ_URL": made.to_replica.url}
        made.stack.start_all()
        yield made
        made.to_replica.close()
    finally:
        made.close()


@pytest.fixture
async def operator_world(pair: Pair) -> AsyncIterator[World]:
    made = World(pair.stack)
    yield made
    await made.close()


@pytest.fixture
async def reports(pair: Pair) -> AsyncIterator[Reports]:
    """Yield reports over the primary and its replica, which no task checks."""
    primary = await Database.connect(pair.primary_url, size=2)
    made = await Reports.open(primary, pair.to_replica.url)
    yield made
    await made.close()
    await primary.close()


def port(url: str) -> int:
    return int(url.rpartition("/")[0].rpartition(":")[2])


async def server_of(reports: Reports) -> int:
    """Return the port of the server that a report is read from."""
    return (await reports.fetch(PORT)).rows[0]["port"]


async def checked(pair: Pair, reports: Reports) -> None:
    """Check the replica until it is current: the service may have written just before a check."""
    async with asyncio.timeout(20):
        while True:
            await pair.caught_up()
            await reports.check()
            if reports.lag_s is not None and reports.lag_s < MOST_LAG_S:
                return


async def answers(world: World, path: str, good: Any) -> dict[str, Any]:
    """Read a report until its answer is good. One that is read while the replica freezes is unavailable."""
    operator = await world.operator()
    return await world.until(lambda: app.retry(lambda: operator.get(path)), good, timeout=15)


async def test_report_is_read_from_the_primary_until_the_replica_was_checked(pair: Pair, reports: Reports) -> None:
    assert await server_of(reports) == port(pair.primary_url)
    await checked(pair, reports)
    assert await server_of(reports) == port(pair.standby_url)
    assert (await reports.fetch(PORT)).lag_s is not None


async def test_replica_that_is_too_far_behind_is_not_used(
    pair: Pair, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    await checked(pair, reports)
    pair.replication.switch(Mode.HANG)
    try:
        await pair.on_primary("CREATE TABLE IF NOT EXISTS later (n int)")
        await reports.check()  # what was on its way has arrived by now
        before = reports.lag_s
        await reports.check()
        assert reports.lag_s > before  # it answers, but it has not replayed the table
        monkeypatch.setattr("core.storage.reports.MOST_LAG_S", reports.lag_s)
        assert (await reports.fetch("SELECT count(*) FROM later")).lag_s is None
    finally:
        pair.replication.switch(Mode.PASS)
    monkeypatch.setattr("core.storage.reports.MOST_LAG_S", MOST_LAG_S)
    await checked(pair, reports)
    assert await server_of(reports) == port(pair.standby_url)


async def test_replica_stays_current_while_the_pool_of_the_primary_is_busy(pair: Pair, reports: Reports) -> None:
    pool = reports._primary.pool
    async with pool.acquire(), pool.acquire():
        await checked(pair, reports)
        assert await server_of(reports) == port(pair.standby_url)


async def test_lost_replica_is_replaced_by_the_primary_at_once(pair: Pair, reports: Reports) -> None:
    await checked(pair, reports)
    pair.to_replica.switch(Mode.CUT)
    try:
        assert await server_of(reports) == port(pair.primary_url)
        await reports.check()
        assert reports.lag_s is None
    finally:
        pair.to_replica.switch(Mode.PASS)
    await checked(pair, reports)
    assert await server_of(reports) == port(pair.standby_url)


async def test_url_of_another_database_is_not_read(pair: Pair, reports: Reports) -> None:
    stranger = Stack(only_database=True)
    try:
        wrong = await Reports.open(reports._primary, stranger.database_url)
        await wrong.check()
        assert await server_of(wrong) == port(pair.primary_url)
        await wrong.close()
    finally:
        stranger.close()


async def test_reports_show_the_lag_of_the_replica_and_null_without_it(pair: Pair, operator_world: World) -> None:
    for path in (*LISTS, AUDIT):
        answer = await answers(operator_world, path, lambda found: found[LAG] is not None)
        assert 0 <= answer[LAG] <= MOST_LAG_S
    said = pair.stack.command("audit").stdout
    assert " 0 violations" in said
    pair.to_replica.switch(Mode.CUT)
    try:
        for path in (*LISTS, AUDIT):
            assert (await answers(operator_world, path, lambda found: found[LAG] is None))[LAG] is None
    finally:
        pair.to_replica.switch(Mode.PASS)
    await answers(operator_world, AUDIT, lambda found: found[LAG] is not None)


async def test_frozen_replica_is_replaced_by_the_primary_within_seconds(pair: Pair, operator_world: World) -> None:
    operator = await operator_world.operator()
    pair.to_replica.switch(Mode.HANG)
    try:
        async with asyncio.timeout(5):
            await operator.get("/internal/overview")
        await answers(operator_world, LISTS[0], lambda found: found[LAG] is None)
    finally:
        pair.to_replica.switch(Mode.PASS)
