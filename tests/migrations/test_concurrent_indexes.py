"""Indexes of tables with rows are built while others write, and one whose build was stopped is rebuilt."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import asyncpg
import pytest

from core.storage import concurrent_indexes
from tests.migrations import catalog
from tests.stack import Stack
from tools.commands import migrate

pytestmark = pytest.mark.anyio
REPEATED = "0004"  # makes the index
INDEX = "otp_requests_ip"
STATE = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)"
INSERT = """INSERT INTO otp_requests (id, phone, user_type, channel, code_hash, expires_at, ip_address, created_at)
  VALUES (gen_random_uuid(), '+6281234567890', 'customer', 'sms', 'x', now(), '10.0.0.1', now())"""


@pytest.fixture
async def connection(servers: Stack) -> AsyncIterator[asyncpg.Connection]:
    """Yield a connection to a database that lacks an index of a table with rows, and the migration that makes it."""
    made = await asyncpg.connect(servers.database_url)
    await made.execute(INSERT)
    await made.execute(f"DROP INDEX IF EXISTS {INDEX}")
    await made.execute("DELETE FROM migration WHERE name = $1", REPEATED)
    yield made
    await made.close()


@contextlib.asynccontextmanager
async def open_write(servers: Stack) -> AsyncIterator[None]:
    """Keep a transaction open that has written to the table: a build of its index waits for the end."""
    async with servers.transaction() as other:
        await other.execute(INSERT)
        yield


async def state(connection: asyncpg.Connection, expected: bool | None, index: str = INDEX) -> None:
    """Wait until an index is valid (True), being built or left invalid (False), or away (None)."""
    async with asyncio.timeout(30):
        while await connection.fetchval(STATE, index) is not expected:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def stopped(servers: Stack, connection: asyncpg.Connection, statement: str, index: str) -> None:
    """Run a statement that builds an index, and stop it while the index is there and the build waits."""
    async with open_write(servers):
        building = await asyncpg.connect(servers.database_url)
        build = asyncio.create_task(building.execute(statement))
        await state(connection, False, index)
        await connection.execute("SELECT pg_cancel_backend($1)", building.get_server_pid())
        with pytest.raises(asyncpg.QueryCanceledError):
            await build
        await building.close()
    await state(connection, False, index)


async def leave_invalid(servers: Stack, connection: asyncpg.Connection) -> None:
    """Stop the build of the index while it waits."""
    await stopped(
        servers, connection, f"CREATE INDEX CONCURRENTLY {INDEX} ON otp_requests (ip_address, created_at)", INDEX
    )


async def test_index_of_a_table_with_rows_is_built_while_others_write(
    servers: Stack, connection: asyncpg.Connection
) -> None:
    async with open_write(servers):
        migration = asyncio.create_task(migrate.migrate(servers.database_url))
        await state(connection, False)
        await connection.execute(f"SET lock_timeout = '100ms'; {INSERT}")
        assert not migration.done()
    assert await asyncio.wait_for(migration, 60) == 1
    await state(connection, True)


async def test_two_migrations_at_once_build_an_index_once(servers: Stack, connection: asyncpg.Connection) -> None:
    """The one that waits for the other's lock may not hold a snapshot, for which the build would wait."""
    async with open_write(servers):
        migrations = [asyncio.create_task(migrate.migrate(servers.database_url)) for _ in range(2)]
        await state(connection, False)
    assert sorted(await asyncio.wait_for(asyncio.gather(*migrations), 60)) == [0, 1]
    await state(connection, True)


async def test_invalid_index_is_rebuilt_by_the_next_migration(servers: Stack, connection: asyncpg.Connection) -> None:
    await leave_invalid(servers, connection)
    assert await migrate.migrate(servers.database_url) == 1
    assert await connection.fetchval(STATE, INDEX) is True


async def test_invalid_index_is_rebuilt_without_pending_migrations(
    servers: Stack, connection: asyncpg.Connection
) -> None:
    await migrate.migrate(servers.database_url)
    before = await catalog.schema(connection)
    await connection.execute(f"DROP INDEX {INDEX}")
    await leave_invalid(servers, connection)
    assert await migrate.migrate(servers.database_url) == 0
    assert await catalog.schema(connection) == before


async def test_stopped_rebuild_leaves_no_copy_behind(servers: Stack, connection: asyncpg.Connection) -> None:
    await migrate.migrate(servers.database_url)
    before = await catalog.schema(connection)
    await stopped(servers, connection, f"REINDEX INDEX CONCURRENTLY {INDEX}", f"{INDEX}_ccnew")
    assert await catalog.schema(connection) != before
    await migrate.migrate(servers.database_url)
    assert await catalog.schema(connection) == before


async def test_build_that_loses_its_connection_is_repeated(servers: Stack, connection: asyncpg.Connection) -> None:
    async with open_write(servers):
        migration = asyncio.create_task(migrate.migrate(servers.database_url))
        await state(connection, False)
        builders = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%'"
        )
        await connection.execute(builders)
        with pytest.raises(RuntimeError, match="the migration 0004 failed"):
            await asyncio.wait_for(migration, 60)
    assert await migrate.migrate(servers.database_url) == 1
    assert await connection.fetchval(STATE, INDEX) is True


async def test_only_missing_indexes_of_tables_with_rows_are_built(connection: asyncpg.Connection) -> None:
    """Those of empty and of new tables are left to the file's transaction, also statements in comments and functions."""
    async with connection.transaction():  # a concurrent build would be refused
        await connection.execute("CREATE TABLE empty_table (id INT)")
        await concurrent_indexes.build(
            connection,
            f"""CREATE INDEX IF NOT EXISTS empty_table_id ON empty_table (id);
            CREATE INDEX IF NOT EXISTS new_table_id ON new_table (id);
            CREATE INDEX IF NOT EXISTS otp_requests_phone ON otp_requests (phone, created_at);
            -- CREATE INDEX IF NOT EXISTS {INDEX} ON otp_requests (ip_address, created_at);
            CREATE FUNCTION f() RETURNS VOID LANGUAGE plpgsql AS $$
            BEGIN CREATE INDEX IF NOT EXISTS {INDEX} ON otp_requests (ip_address, created_at); END; $$;""",
        )
        assert await connection.fetchval("SELECT to_regclass('empty_table_id') IS NULL")
        await connection.execute("DROP TABLE empty_table")
    assert await connection.fetchval(STATE, INDEX) is None


async def test_index_of_a_partitioned_table_takes_those_that_were_built_for_its_partitions(
    connection: asyncpg.Connection,
) -> None:
    await connection.execute(
        "INSERT INTO webhook_logs (id, received_at, source_ip, token_valid, raw_body)"
        " VALUES (uuidv7(), now(), '127.0.0.1', true, '')"
    )
    sql = "CREATE INDEX IF NOT EXISTS webhook_logs_status ON webhook_logs (status)"
    parts = "SELECT array_agg(indexname::text ORDER BY indexname) FROM pg_indexes WHERE indexname ~ '^webhook_logs_.*_status$'"
    await concurrent_indexes.build(connection, sql)
    built = await connection.fetchval(parts)
    assert built is not None
    await connection.execute(sql)
    assert await connection.fetchval(parts) == built
    taken = "SELECT array_agg(relname::text ORDER BY relname) FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE inhparent = $1::regclass"
    assert await connection.fetchval(taken, "webhook_logs_status") == built
    assert await connection.fetchval(STATE, "webhook_logs_status") is True
