"""Connections that a pool keeps lent: never used by two at once, never lost, and as free as those in the pool."""

import asyncio
import contextlib
import datetime as dt
import itertools
import random
import statistics
from collections.abc import AsyncIterator, Iterator

import asyncpg
import attrs
import pytest

from core.runtime.container import open_databases
from core.settings.environment import read
from core.storage.database import Database
from core.storage.pool import PooledConnection
from tests.stack import Stack, within

pytestmark = pytest.mark.anyio
OWNER = "SELECT coalesce(current_setting('sesi.owner', true), '')"
OURS = "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = 'sesi' AND datname = current_database()"
SLEEPS = """SELECT 1 FROM pg_stat_activity WHERE application_name = 'sesi' AND state = 'active'
  AND query LIKE '%pg_sleep(0.5)%'"""
PID = "SELECT pg_backend_pid()"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Yield a server without any process."""
    made = Stack(only_database=True)
    yield made
    made.close()


@pytest.fixture(params=[1, 2, 5])
async def database(stack: Stack, request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """Yield a pool of one, two or five connections."""
    made = await Database.connect(stack.database_url, size=request.param)
    yield made
    await made.close()


def now() -> dt.datetime:
    return dt.datetime(2026, 11, 26, tzinfo=dt.UTC)


async def check_complete(database: Database) -> None:
    """Check that no connection is in use, and that all can be used at once."""
    size = database.pool.get_max_size()
    assert database.pool.get_idle_size() == database.pool.get_size() <= size
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        pids = [group.create_task(database.fetchval("SELECT pg_backend_pid() FROM pg_sleep(0.2)")) for _ in range(size)]
    assert len({task.result() for task in pids}) == size
    assert database.pool.get_idle_size() == size


class Broken(Exception):
    """The error of a block."""


async def use(database: Database, name: str, chance: random.Random) -> None:
    """Use a connection in one of the ways of the service, and check that no other use can be seen on it."""
    match chance.randrange(8):
        case 0 | 1 | 2:
            assert await database.fetchval(OWNER) == ""
        case 3:
            with pytest.raises(asyncpg.DivisionByZeroError):
                await database.fetchval("SELECT 1 / 0")
        case 4:
            async with database.transaction(now) as tx:
                await tx.fetch("SELECT set_config('sesi.owner', $1, true)", name)
                await asyncio.sleep(0)
                assert await tx.fetchval(OWNER) == name
        case 5:
            with contextlib.suppress(Broken):
                async with database.transaction(now) as tx:
                    await tx.fetch("SELECT set_config('sesi.owner', $1, true)", name)
                    raise Broken
        case 6:
            async with database.connection() as connection:
                assert await connection.fetchval(OWNER) == ""
                await connection.execute("BEGIN")
                await connection.execute("SELECT set_config('sesi.owner', $1, true)", name)
        case _:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(chance.choice((0, 0.0005, 0.005))):
                    if chance.random() < 0.5:
                        await database.fetchval("SELECT pg_sleep(0.1)")
                    else:
                        async with database.transaction(now) as tx:
                            await tx.fetchval("SELECT pg_sleep(0.1)")


async def test_connection_is_used_by_one_at_a_time_and_comes_back_after_every_end(database: Database) -> None:
    async def work(number: int) -> None:
        chance = random.Random(number)
        for turn in range(12):
            await use(database, f"{number}-{turn}", chance)

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(work(number))
    await check_complete(database)


async def test_transaction_gets_its_turn_among_reads_that_go_on_forever(database: Database) -> None:
    readers, reads, waited = 4 * database.pool.get_max_size(), itertools.count(), []
    done = asyncio.Event()

    async def read() -> None:
        while not done.is_set():
            await database.fetchval("SELECT 1")
            next(reads)

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for _ in range(readers):
            group.create_task(read())
        for _ in range(10):
            await asyncio.sleep(0.005)
            before = next(reads)
            connection = await database.pool.take(timeout_s=5)  # as a transaction does
            waited.append(next(reads) - before)
            await database.pool.keep(connection)
        done.set()
    # Without turns it would wait until the reads end, and `take` would raise TimeoutError. A reader that comes while the loop
    # wakes the waiter may overtake it, so single waits are long: one in a hundred is longer than five reads of each reader.
    assert statistics.median(waited) <= 5 * readers


async def test_expired_connections_are_replaced_after_their_use(database: Database) -> None:
    kept = await database.fetchval(PID)
    async with database.transaction(now) as tx:
        lent = await tx.fetchval(PID)
        await database.pool.expire_connections()
        assert await tx.fetchval(PID) == lent
    await check_complete(database)
    size = database.pool.get_max_size()
    async with asyncio.TaskGroup() as group:
        pids = [group.create_task(database.fetchval("SELECT pg_backend_pid() FROM pg_sleep(0.2)")) for _ in range(size)]
    assert not {kept, lent} & {task.result() for task in pids}


async def test_connection_that_was_being_opened_when_all_expired_is_not_kept(stack: Stack) -> None:
    database = await Database.lazy(stack.database_url, size=1)
    try:
        opening = asyncio.create_task(database.pool.take())
        await asyncio.sleep(0)
        await database.pool.expire_connections()
        connection = await opening
        late = await connection.fetchval(PID)
        await database.pool.keep(connection)
        assert await database.fetchval(PID) != late
    finally:
        await database.close()


@pytest.mark.parametrize("commit_pool_size", [0, 1])
async def test_pools_are_closed_when_a_later_one_can_not_be_opened(stack: Stack, commit_pool_size: int) -> None:
    settings = attrs.evolve(read({}), database_url=stack.database_url, database_read_url="postgresql://[")
    before = await stack.sql(OURS)
    with pytest.raises(ValueError, match="IPv6"):
        await open_databases(settings, pool_size=1, commit_pool_size=commit_pool_size)
    async with asyncio.timeout(5):
        while await stack.sql(OURS) != before:
            pass


async def test_ended_transaction_takes_no_statements(database: Database) -> None:
    async with database.transaction(now) as tx:
        assert await tx.fetchval("SELECT 1") == 1
    with pytest.raises(RuntimeError):
        await tx.fetchval("SELECT 1")
    with pytest.raises(Broken):
        async with database.transaction(now) as tx:
            raise Broken
    with pytest.raises(RuntimeError):
        await tx.execute("SELECT 1")


async def test_kept_connection_that_the_server_has_closed_is_replaced(stack: Stack, database: Database) -> None:
    pid = await database.fetchval(PID)
    assert await database.fetchval(PID) == pid  # it was kept
    await stack.sql("SELECT pg_terminate_backend($1)", pid)
    assert await database.fetchval(PID) != pid
    await check_complete(database)


async def test_kept_connection_counts_as_idle_and_closes_without_use(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("pool.UNUSED_S", 0.5), ("pool.KEPT_S", 0.1)):
        monkeypatch.setattr(f"core.storage.{name}", seconds)
    database = await Database.lazy(stack.database_url, size=2)
    try:
        await database.fetchval("SELECT 1")
        assert database.pool.get_idle_size() == database.pool.get_size() == 1
        async with asyncio.timeout(within(5)):
            while database.pool.get_size():  # noqa: ASYNC110 - the pool has no event of this
                await asyncio.sleep(0.02)
            while await database.fetchval(OURS) != 1:  # noqa: ASYNC110 - the server's process ends a moment later
                await asyncio.sleep(0.02)
    finally:
        await database.close()


async def test_closed_pool_leaves_no_connection(stack: Stack) -> None:
    database = await Database.connect(stack.database_url, size=3)
    # A connection that is still being opened when the database is closed is given up, so all three are opened before.
    await asyncio.gather(*(database.fetchval("SELECT 1 FROM pg_sleep(0.1)") for _ in range(3)))
    assert database.pool.get_size() == 3
    async with asyncio.TaskGroup() as group:
        for _ in range(6):
            group.create_task(database.fetchval("SELECT 1"))
        late = group.create_task(database.fetchval("SELECT 1 FROM pg_sleep(0.5)"))
        while not (late.done() or await stack.sql(SLEEPS)):
            continue
        await database.close()
        assert await late == 1
    assert database.pool.get_size() == 0


async def test_second_connection_reads_no_built_in_type_again(stack: Stack) -> None:
    asked = "SELECT count(*)::int FROM pg_prepared_statements WHERE statement ~ '^\\s*WITH RECURSIVE typeinfo_tree'"
    for count in (1, 0):
        connection = await asyncpg.connect(stack.database_url, connection_class=PooledConnection)
        assert await connection.fetchval("SELECT $1::xid8[] || '{5, 8}'", [3]) == [3, 5, 8]
        assert await connection.fetchval(asked) == count
        await connection.close()
