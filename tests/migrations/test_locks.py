"""A migration's locks on tables that processes use put no process into a deadlock with it."""

import pytest

from core.storage.migrations import files
from tests.migrations import series
from tests.stack import Stack

pytestmark = pytest.mark.anyio
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


async def test_each_transaction_locks_one_used_table_and_never_raises_the_lock(servers: Stack) -> None:
    """The first series is left out, because its tables are new; the example of a renamed column is part of it."""
    (*_, first), later = list(files())[: series.FIRST_SERIES], list(files().values())[series.FIRST_SERIES :]
    async with series.migrated(servers, "watched", first) as url, series.connected(url) as connection:
        await connection.execute(WATCH)
        wrong = list[str]()
        for path in [*later, *series.RENAMED_COLUMN]:
            await connection.execute(USE)
            await series.run(url, [path])
            assert await connection.fetch("SELECT FROM watch.locks") or path in later
            found = [row[0] for sql in (SEVERAL, RAISED) for row in await connection.fetch(sql)]
            wrong += [f"{path.name}: {text}" for text in found]
        assert wrong == []
