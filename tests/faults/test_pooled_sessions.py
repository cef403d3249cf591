"""DATABASE_POOLER=transaction: every statement has its timeouts, though a pooler lends a session for one transaction."""

import datetime as dt
from collections.abc import AsyncIterator

import asyncpg
import pytest

from core.base.errors import Unavailable
from core.storage.database import Database
from tests.faults import people as app
from tests.stack import Stack, World

pytestmark = pytest.mark.anyio
SETTINGS = """SELECT current_setting('statement_timeout') || ' ' || current_setting('lock_timeout') || ' ' ||
  current_setting('idle_in_transaction_session_timeout') || ' ' || current_setting('jit')"""
OURS = "4s 3s 8s off"


@pytest.fixture
async def database(servers: Stack) -> AsyncIterator[Database]:
    """Yield a pool that expects a pooler in between."""
    made = await Database.connect(servers.database_url, size=1, through_pooler=True)
    yield made
    await made.close()


def now() -> dt.datetime:
    return dt.datetime(2026, 11, 24, tzinfo=dt.UTC)


async def test_statements_have_the_timeouts_and_sessions_do_not(database: Database) -> None:
    assert await database.fetchval(SETTINGS) == OURS
    async with database.transaction(now) as tx:
        assert await tx.fetchval(SETTINGS) == OURS
    async with database.pool.acquire() as connection:
        assert (await connection.fetchval(SETTINGS)).startswith("0 0 0 ")


async def test_separate_pool_has_its_own_timeouts(database: Database) -> None:
    leases = await database.separate(name="lease", statement_s=1.5)
    try:
        assert await leases.fetchval(SETTINGS) == "1500ms 1500ms 1500ms off"
    finally:
        await leases.close()


async def test_statement_that_lasts_too_long_is_cancelled(database: Database) -> None:
    leases = await database.separate(name="lease", statement_s=0.2)
    try:
        with pytest.raises(Unavailable):
            await leases.fetchval("SELECT pg_sleep(3)")
        assert await leases.fetchval("SELECT 1") == 1  # the failed transaction has ended
    finally:
        await leases.close()


async def test_lent_connection_commits_at_the_end_and_rolls_back_after_an_error(
    database: Database, servers: Stack
) -> None:
    await servers.sql("CREATE TABLE lent (n int PRIMARY KEY)")
    async with database.connection() as connection:
        await connection.execute("INSERT INTO lent VALUES (1)")
        assert await servers.sql("SELECT n FROM lent") == []
    assert [row["n"] for row in await servers.sql("SELECT n FROM lent")] == [1]

    async def write_two() -> None:
        async with database.connection() as connection:
            await connection.execute("INSERT INTO lent VALUES (2)")
            await connection.execute("INSERT INTO lent VALUES (1)")

    with pytest.raises(asyncpg.UniqueViolationError):
        await write_two()
    assert [row["n"] for row in await servers.sql("SELECT n FROM lent")] == [1]


async def test_no_statement_is_prepared_under_a_name(database: Database) -> None:
    for n in range(3):
        assert await database.fetchval("SELECT $1::int", n) == n
    assert await database.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE name <> ''") == 0


async def test_migration_through_a_pooler_is_refused(servers: Stack) -> None:
    refused = servers.command("migrate", check=False, DATABASE_POOLER="transaction")
    assert refused.returncode == 1
    assert "DATABASE_POOLER: expected none for a migration" in refused.stderr + refused.stdout
    assert servers.command("migrate", "--check", DATABASE_POOLER="transaction").returncode == 0
    # As the units, Compose and the chart run it: all processes share their settings, but not the URL.
    assert servers.command("migrate", "--direct", DATABASE_POOLER="transaction").returncode == 0


async def test_whole_service_works_with_transaction_settings(servers: Stack) -> None:
    servers.env |= {"DATABASE_POOLER": "transaction", "DATABASE_POOL_SIZE": "4"}
    servers.start_all()
    world = World(servers)
    await app.whole_session(world)
    await world.close()
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sesi'"
    assert (await servers.sql(sessions))[0][0] <= 3 * (4 + 1)
