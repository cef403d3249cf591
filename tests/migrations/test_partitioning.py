"""The tables are partitioned while processes write, in steps that may end at any statement."""

import asyncio
import contextlib
import datetime as dt
import importlib.util
import pathlib
import time
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from core.base import ids
from core.storage.partitions import PARTITIONED
from tests.migrations import catalog, record
from tests.migrations.old_databases import run_and_record, run_script
from tests.migrations.test_schema_upgrades import OLD_ROWS, schema_of
from tests.stack import Stack, within
from tools.commands import migrate

pytestmark = pytest.mark.anyio
SCRIPT = record.MIGRATIONS / "0006_partitions.py"
SCRIPTS = sorted(record.MIGRATIONS.glob("[0-9]*.py"))
LEFT = len([path for path in SCRIPTS if path.name >= SCRIPT.name])  # this migration and the later ones
WAITED_S = 2.0  # for which a migration may lock writers out
SESSION = "00000000-0000-7000-8000-000000000042"
MITRA, CUSTOMER = "00000000-0000-7000-8000-000000000002", "00000000-0000-7000-8000-000000000001"
# Statements of version 0.2, with their arguments.
SAY = """INSERT INTO chat_messages (id, session_id, seq, sender_type, sender_id, client_message_id, content, created_at)
  SELECT $1, $2, max(seq) + 1, 'customer', $3, $1, 'halo', now() FROM chat_messages WHERE session_id = $2 RETURNING seq"""
FIRST_WORDS = """INSERT INTO chat_messages (id, session_id, seq, sender_type, sender_id, client_message_id, content, created_at)
  VALUES ($1, $2, 1, 'customer', $3, $1, 'halo', now())"""
INVITE = """INSERT INTO chat_request_notifications (id, session_id, mitra_id, round_number, notified_at, answer_by, active_session_count)
  VALUES ($1, $2, $3, 1, now(), now(), 0) ON CONFLICT (session_id, mitra_id) WHERE response IS NULL DO NOTHING RETURNING id"""
RESPOND = """UPDATE chat_request_notifications SET response = 'REJECTED', responded_at = now()
  WHERE session_id = $1 AND mitra_id = $2 AND response IS NULL RETURNING id"""
CALL = """INSERT INTO webhook_logs (id, received_at, source_ip, token_valid, raw_body) VALUES ($1, now(), '127.0.0.1', true, '')
  ON CONFLICT (id) DO NOTHING RETURNING id"""
COUNT = """INSERT INTO webhook_logs (id, received_at, source_ip, token_valid, raw_body, http_status, processing_result, calls, bytes, body_sha256)
  VALUES ($1, now(), '127.0.0.2', false, '', 401, 'flood', 1, 7, 'x')
  ON CONFLICT (id) DO UPDATE SET calls = webhook_logs.calls + excluded.calls, bytes = webhook_logs.bytes + excluded.bytes RETURNING calls"""
STAMP = "UPDATE webhook_logs SET http_status = 200, processing_result = 'confirmed' WHERE id = $1 AND http_status IS NULL RETURNING id"
ORPHANS = """UPDATE webhook_logs SET http_status = 500, processing_result = 'error', processing_error = 'x'
  WHERE http_status IS NULL AND id = ANY(ARRAY(
    SELECT id FROM webhook_logs WHERE http_status IS NULL AND received_at <= $1 ORDER BY received_at LIMIT 500 FOR UPDATE SKIP LOCKED)) RETURNING id"""
COMMIT = """SELECT seqs FROM chat_commit(ARRAY[$1::uuid], '{0}', '{0}', '{0}', '{0}', '{1}', ARRAY[$2::uuid], ARRAY[$3::uuid], ARRAY[$2::uuid],
  '{text}', '{halo}', '{NULL}', now(), 1)"""
FILL = "SELECT id, final FROM chat_fill(ARRAY[$1::uuid], '{0}', NULL)"


async def make(servers: Stack, name: str, scripts: list[pathlib.Path]) -> str:
    """Create a database with these migrations and return its address."""
    await servers.sql(f"CREATE DATABASE {name}")
    url = servers.url_of(name)
    await run_and_record(scripts, url)
    return url


@pytest.fixture(scope="module")
async def template(servers: Stack) -> str:
    """Return the address of a database with some rows that lacks this migration and the later ones."""
    url = await make(servers, "unpartitioned", [path for path in SCRIPTS if path.name < SCRIPT.name])
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(OLD_ROWS)
    finally:
        await connection.close()
    return url


@pytest.fixture(scope="module")
async def wanted(servers: Stack) -> set[str]:
    """Return the schema of a database without rows that lacks only the later migrations."""
    return await schema_of(await make(servers, "wanted", [path for path in SCRIPTS if path.name <= SCRIPT.name]))


@pytest.fixture
async def old(servers: Stack, template: str) -> AsyncIterator[str]:
    """Yield the address of a copy of it."""
    await servers.sql("CREATE DATABASE partitioned TEMPLATE unpartitioned")
    yield servers.url_of("partitioned")
    await servers.sql("DROP DATABASE partitioned WITH (FORCE)")


@pytest.fixture
async def connection(old: str) -> AsyncIterator[asyncpg.Connection]:
    """Yield a connection like the migration's."""
    made = await asyncpg.connect(old, server_settings={"lock_timeout": "2s"})
    yield made
    await made.close()


def script() -> Any:
    """Return the migration's module."""
    spec = importlib.util.spec_from_file_location("partitioning", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Dying:
    """A connection that is lost before a certain statement."""

    def __init__(self, connection: Any, *, after: int) -> None:
        self._connection = connection
        self.left = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def execute(self, sql: str) -> str:
        """Run a statement. Raises ConnectionError instead of the one after the last."""
        if self.left == 0:
            raise ConnectionError
        self.left -= 1
        return await self._connection.execute(sql)


class Prepared(Dying):
    """A connection that is lost before the swap."""

    async def execute(self, sql: str) -> str:
        """Run a statement. Raises ConnectionError instead of the first one of the swap."""
        if sql.startswith("LOCK TABLE"):
            raise ConnectionError
        return await self._connection.execute(sql)


class Writer:
    """A process of version 0.2 that writes without a break, with statements that it prepared before the migration."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        self.longest_s = 0.0
        self.rounds = 0
        self.calls = list[str]()
        self.ended_round = asyncio.Event()

    async def rounds_more(self, count: int) -> None:
        """Wait until the process has written `count` more times."""
        for _ in range(count):
            self.ended_round.clear()
            await self.ended_round.wait()

    async def run(self, stop: asyncio.Event) -> None:
        """Write until `stop`, and remember how long the slowest statement took."""
        flood = ids.new_id()
        while not stop.is_set():
            assert await self.one(SAY, ids.new_id(), SESSION, CUSTOMER) == self.rounds + 3
            assert await self.one(INVITE, ids.new_id(), SESSION, MITRA) is not None
            assert await self.one(INVITE, ids.new_id(), SESSION, MITRA) is None
            assert await self.one(RESPOND, SESSION, MITRA) is not None
            self.calls.append(ids.new_id())
            assert await self.one(CALL, self.calls[-1]) is not None
            assert await self.one(CALL, self.calls[-1]) is None
            assert await self.one(STAMP, self.calls[-1]) is not None
            self.rounds += 1
            assert await self.one(COUNT, flood) == self.rounds
            self.ended_round.set()

    async def one(self, sql: str, *args: Any) -> Any:
        """Run a statement and return its first value."""
        began = time.monotonic()
        found = await self.connection.fetchval(sql, *args)
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        return found


async def test_writers_go_on_while_the_tables_are_partitioned(old: str, connection: asyncpg.Connection) -> None:
    await connection.execute(
        """INSERT INTO webhook_logs (id, received_at, source_ip, token_valid, raw_body, http_status, processing_result)
           SELECT uuidv7(n * interval '-1 minute'), now() - n * interval '1 minute', '127.0.0.1', true, '', 200, 'duplicate' FROM generate_series(1, 100000) n"""
    )
    writer, stop = Writer(connection), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(writer.run(stop))
        await writer.rounds_more(10)
        assert await migrate.migrate(old) == LEFT
        await writer.rounds_more(10)
        stop.set()
    assert writer.longest_s < within(WAITED_S)
    counts = {table: await connection.fetchval(f"SELECT count(*) FROM {table}") for table in PARTITIONED}
    assert counts == {
        "chat_messages": 4 + writer.rounds,
        "chat_request_notifications": writer.rounds,
        "delivery_trail": 0,
        "webhook_logs": 100_000 + 1 + writer.rounds + 1,
    }


async def test_statements_of_version_0_2_run_on_the_partitioned_tables(
    old: str, connection: asyncpg.Connection
) -> None:
    await run_script(SCRIPT, old)
    active = SESSION[:-1] + "1"
    assert await connection.fetchval(COMMIT, active, ids.new_id(), CUSTOMER) == [3]
    again = ids.new_id()
    assert await connection.fetchval(COMMIT, active, again, CUSTOMER) == [4]
    assert await connection.fetchval(COMMIT, active, again, CUSTOMER) == [-4]
    assert [tuple(row) for row in await connection.fetch(FILL, active)] == [(asyncpg.pgproto.pgproto.UUID(active), 0)]
    status = "SELECT array_agg(status ORDER BY seq) FROM chat_messages WHERE session_id = $1"
    assert await connection.fetchval(status, active) == ["read", "delivered", "sent", "sent"]
    call = ids.new_id()
    await connection.execute(CALL, call)
    assert str(await connection.fetchval(ORPHANS, dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1))) == call
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await connection.execute("DELETE FROM chat_sessions WHERE id = $1", active)
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await connection.execute(FIRST_WORDS, ids.new_id(), ids.new_id(), CUSTOMER)
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await connection.execute(INVITE, ids.new_id(), ids.new_id(), MITRA)
    with pytest.raises(asyncpg.UniqueViolationError):
        await connection.execute(FIRST_WORDS, ids.new_id(), active, CUSTOMER)


@contextlib.asynccontextmanager
async def copied(servers: Stack) -> AsyncIterator[asyncpg.Connection]:
    """Yield a connection to another copy of the template."""
    await servers.sql("CREATE DATABASE dying TEMPLATE unpartitioned")
    connection = await asyncpg.connect(servers.url_of("dying"))
    try:
        yield connection
    finally:
        await connection.close()
        await servers.sql("DROP DATABASE dying WITH (FORCE)")


@pytest.mark.parametrize("number", range(3))
async def test_partitioning_that_dies_before_any_statement_is_finished_by_the_next(
    servers: Stack, template: str, wanted: set[str], number: int
) -> None:
    module = script()
    plan = module.PLANS[number]
    async with copied(servers) as connection:
        await module.partition(connection, plan)
        finished = await catalog.schema(connection)
        for other in module.PLANS:
            await module.partition(connection, other)
        assert await catalog.schema(connection) == wanted
    after, died = 0, True
    while died:
        async with copied(servers) as connection:
            dying = Dying(connection, after=after)
            try:
                await module.partition(dying, plan)
            except ConnectionError:
                assert await connection.fetchval("SELECT count(*) FROM chat_messages") == 4
                await module.partition(connection, plan)
            assert await catalog.schema(connection) == finished, after
        died = dying.left == 0
        after += 1 if after < 8 else 5  # the later statements are those of one transaction


async def test_table_is_attached_without_reading_its_rows_and_without_building_an_index(
    connection: asyncpg.Connection,
) -> None:
    module, notes = script(), list[str]()
    connection.add_log_listener(lambda _, note: notes.append(note.message))
    before = await connection.fetch("SELECT indexrelid FROM pg_index WHERE indrelid = 'chat_messages'::regclass")
    await connection.execute("SET client_min_messages = debug1")
    for plan in module.PLANS:
        await module.partition(connection, plan)
    await connection.execute("RESET client_min_messages")
    for plan in module.PLANS:
        implied = f'partition constraint for table "{plan.table}_before_'
        assert any(note.startswith(implied) and "is implied by existing" in note for note in notes), plan.table
    after = await connection.fetch("SELECT indexrelid FROM pg_index")
    kept = {row[0] for row in before} & {row[0] for row in after}
    assert len(kept) == len(before) - 1  # all but the old primary key


async def test_invalid_index_of_an_interrupted_build_is_built_again(
    old: str, wanted: set[str], connection: asyncpg.Connection
) -> None:
    await connection.execute("CREATE UNIQUE INDEX chat_messages_primary ON chat_messages (session_id)  WHERE seq = 1")
    await connection.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'chat_messages_primary'::regclass"
    )
    await run_script(SCRIPT, old)
    assert await catalog.schema(connection) == wanted


async def test_month_of_an_interrupted_run_is_replaced_when_it_is_near(
    old: str, wanted: set[str], connection: asyncpg.Connection
) -> None:
    await connection.execute(
        """ALTER TABLE chat_messages ADD CONSTRAINT chat_messages_before_2020_01
           CHECK (session_id < '016f5e66-e800-0000-0000-000000000000') NOT VALID"""
    )
    await run_script(SCRIPT, old)
    assert await catalog.schema(connection) == wanted


async def test_id_that_the_service_did_not_make_stops_the_migration_before_it_changes_anything(
    old: str, connection: asyncpg.Connection
) -> None:
    await connection.execute(CALL, "ffffffff-4994-4f50-b7a5-4e7d0b1ae1ba")
    before = await catalog.schema(connection)
    with pytest.raises(RuntimeError, match="webhook_logs: the id ffffffff-4994-4f50-b7a5-4e7d0b1ae1ba was not made by"):
        await migrate.migrate(old)
    assert await catalog.schema(connection) == before
    await connection.execute("DELETE FROM webhook_logs WHERE id = 'ffffffff-4994-4f50-b7a5-4e7d0b1ae1ba'")
    assert await migrate.migrate(old) == LEFT


async def test_ids_ahead_of_the_clock_get_a_later_first_month(connection: asyncpg.Connection) -> None:
    """As with SESI_TIME_SCALE, where the service's time is ahead of the database's."""
    ahead = dt.datetime.now(dt.UTC) + dt.timedelta(days=300)
    await connection.execute(CALL, ids.id_of(ahead, b"call"))
    module = script()
    await module.partition(connection, module.PLANS[0])
    name = await connection.fetchval(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'webhook_logs'::regclass"
    )
    assert dt.datetime.strptime(name, "webhook_logs_before_%Y_%m").replace(tzinfo=dt.UTC) > ahead


async def test_partitioning_gives_up_while_a_table_is_locked_and_works_later(
    old: str, connection: asyncpg.Connection
) -> None:
    module, holder = script(), await asyncpg.connect(old)
    for plan in module.PLANS:
        async with holder.transaction():
            await holder.execute(f"LOCK TABLE {plan.referenced or plan.table} IN ROW EXCLUSIVE MODE")
            began = time.monotonic()
            with pytest.raises(asyncpg.LockNotAvailableError):
                await module.partition(connection, plan)
            assert time.monotonic() - began < within(2 * WAITED_S)
        await module.partition(connection, plan)
    await holder.close()
    assert await connection.fetchval("SELECT count(*) FROM pg_partitioned_table WHERE partstrat = 'r'") == 3


async def test_transaction_that_reads_and_then_writes_is_no_deadlock(old: str, connection: asyncpg.Connection) -> None:
    module, party = script(), await asyncpg.connect(old)
    plan = next(plan for plan in module.PLANS if plan.referenced is not None)
    with pytest.raises(ConnectionError):
        await module.partition(Prepared(connection, after=0), plan)
    async with asyncio.TaskGroup() as group:
        async with party.transaction():
            await party.fetchval("SELECT count(*) FROM chat_sessions")
            swap = group.create_task(in_turns(module, connection, plan))
            await until_it_waits(party, connection)
            await party.execute("UPDATE chat_sessions SET topics = topics WHERE id = $1", SESSION)
        assert await swap == []
    await party.close()


@pytest.mark.parametrize("held_s", [0.2, 0.5])
async def test_transaction_that_waits_behind_the_swap_is_no_deadlock(
    old: str, connection: asyncpg.Connection, held_s: float
) -> None:
    """It has locked the second table of the swap, and waits for the first one behind it."""
    module, party, holder = script(), await asyncpg.connect(old), await asyncpg.connect(old)
    plan = next(plan for plan in module.PLANS if plan.referenced is not None)
    with pytest.raises(ConnectionError):
        await module.partition(Prepared(connection, after=0), plan)
    async with asyncio.TaskGroup() as group:
        async with party.transaction():
            await party.execute("UPDATE chat_sessions SET topics = topics WHERE id = $1", SESSION)
            async with holder.transaction():
                await holder.execute("UPDATE mitras SET is_active = is_active")
                swap = group.create_task(in_turns(module, connection, plan))
                await until_it_waits(party, connection)
                waiting = group.create_task(party.fetchval("SELECT count(*) FROM mitras"))
                await asyncio.sleep(held_s)
            await waiting
        assert await swap == []
    await party.close()
    await holder.close()


async def until_it_waits(party: asyncpg.Connection, other: asyncpg.Connection) -> None:
    """Wait until another connection waits for a table."""
    waits = "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND pid = $1 AND relation IS NOT NULL"
    async with asyncio.timeout(30):
        while not await party.fetchval(waits, other.get_server_pid()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def in_turns(module: Any, connection: asyncpg.Connection, plan: Any) -> list[Exception]:
    """Partition a table, again while it is locked; return other errors of the attempts."""
    errors = list[Exception]()
    while True:
        try:
            await module.partition(connection, plan)
        except asyncpg.LockNotAvailableError:
            continue
        except asyncpg.DeadlockDetectedError as error:
            errors.append(error)
            continue
        return errors


async def test_privileges_of_other_roles_are_kept(connection: asyncpg.Connection) -> None:
    await connection.execute("CREATE ROLE reports NOLOGIN; GRANT SELECT ON chat_messages, webhook_logs TO reports")
    try:
        module = script()
        for plan in module.PLANS:
            await module.partition(connection, plan)
        allowed = "SELECT has_table_privilege('reports', $1, $2)"
        assert await connection.fetchval(allowed, "chat_messages", "SELECT")
        assert await connection.fetchval(allowed, "webhook_logs", "SELECT")
        assert not await connection.fetchval(allowed, "chat_messages", "INSERT")
        assert not await connection.fetchval(allowed, "chat_request_notifications", "SELECT")
    finally:
        await connection.execute("DROP OWNED BY reports; DROP ROLE reports")
