"""A migration's locks on tables that processes use put no process into a deadlock with it."""

import pathlib
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.migrations import record
from tests.migrations.old_databases import OldDatabases, run_script
from tests.migrations.test_schema_upgrades import OLD_ROWS, V0_2
from tests.stack import Stack
from tools.commands import adoption

pytestmark = pytest.mark.anyio
PARTITIONS = "0006_partitions.py"  # locks several tables, in the order of flows and for a short time
# Stores, at the beginning and the end of each DDL statement, the strongest lock that its transaction holds on each table
# that was there before the migration, if it stops writers. A partition counts as its table.
WATCH = """
CREATE SCHEMA watch;
CREATE TABLE watch.used (relation OID);
CREATE SEQUENCE watch.moment;
CREATE TABLE watch.locks (moment BIGINT, xact XID8, relation REGCLASS, strength INT);
CREATE FUNCTION watch.look() RETURNS EVENT_TRIGGER LANGUAGE plpgsql AS $$
DECLARE
  now bigint := nextval('watch.moment');
BEGIN
  INSERT INTO watch.locks
  SELECT now, pg_current_xact_id(), coalesce(pg_partition_root(l.relation), l.relation), max(m.strength)
  FROM pg_locks AS l
  JOIN unnest(ARRAY['ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'])
    WITH ORDINALITY AS m (mode, strength) ON m.mode = l.mode
  WHERE l.pid = pg_backend_pid() AND l.granted AND l.relation IN (SELECT relation FROM watch.used)
  GROUP BY 3;
END $$;
CREATE EVENT TRIGGER watch_start ON ddl_command_start EXECUTE FUNCTION watch.look();
CREATE EVENT TRIGGER watch_end ON ddl_command_end EXECUTE FUNCTION watch.look();
"""
USE = """TRUNCATE watch.used, watch.locks;
INSERT INTO watch.used SELECT oid FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"""
SEVERAL = """SELECT string_agg(DISTINCT relation::text, ' and ') FROM watch.locks
GROUP BY xact HAVING count(DISTINCT relation) > 1"""
RAISED = """SELECT DISTINCT relation::text || ' twice' FROM (
  SELECT relation, strength > lag(strength) OVER (PARTITION BY xact, relation ORDER BY moment) AS is_raised FROM watch.locks
) AS l WHERE is_raised"""


@pytest.fixture
async def watched(servers: Stack, tmp_path: pathlib.Path) -> AsyncIterator[asyncpg.Connection]:
    """Yield a connection to a database of 0.2 with rows, which stores the locks of each DDL statement."""
    await servers.sql(f"CREATE DATABASE watched TEMPLATE {await OldDatabases(servers, ()).of(V0_2, tmp_path)}")
    url = servers.url_of("watched")
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(OLD_ROWS)
        await adoption.adopt(url)
        await connection.execute(WATCH)
        yield connection
    finally:
        await connection.close()


async def test_each_transaction_locks_one_used_table_and_never_raises_the_lock(
    servers: Stack, watched: asyncpg.Connection
) -> None:
    wrong, locking = list[str](), 0
    done = {row["name"] for row in await watched.fetch("SELECT name FROM migration")}
    for path in sorted(record.MIGRATIONS.glob("[0-9]*.py")):
        if path.name.partition("_")[0] in done:
            continue
        await watched.execute(USE)
        await run_script(path, servers.url_of("watched"))
        locking += len(await watched.fetch("SELECT DISTINCT xact FROM watch.locks"))
        if path.name != PARTITIONS:
            found = [row[0] for sql in (SEVERAL, RAISED) for row in await watched.fetch(sql)]
            wrong += [f"{path.name}: {text}" for text in found]
    assert wrong == []
    assert locking > 20
