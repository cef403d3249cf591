"""Indexes of tables with rows: built without blocking writers, outside of a transaction.

Before `sql_migration` runs a transaction, it builds the transaction's indexes here. `CREATE INDEX IF NOT EXISTS` in the
transaction then leaves them alone, or on a partitioned table takes those of the partitions. A build that was stopped
leaves an invalid index, which `sesi migrate` rebuilds before it runs migrations.
"""

import re
from typing import Any

# A build waits for transactions that began before it, such as an audit of ten minutes, but blocks no reader or writer
# while it waits. It has to end at some time all the same, because it keeps autovacuum off the table.
TIMEOUTS = "SET lock_timeout = '15min'; SET statement_timeout = 0"
CREATE = re.compile(
    r"\bCREATE (UNIQUE )?INDEX (?:CONCURRENTLY )?IF NOT EXISTS (\w+)\s+ON (\w+)\b([^;]*)", re.IGNORECASE
)
EXTENSION = re.compile(r"\bCREATE EXTENSION IF NOT EXISTS \w+", re.IGNORECASE)  # may have the operators of an index
NOT_STATEMENTS = re.compile(r"--[^\n]*|(\$\w*\$).*?\1", re.DOTALL)  # comments, and bodies of functions
IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)"
INVALID = """SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
  WHERE NOT i.indisvalid AND c.relkind = 'i' AND c.relnamespace = current_schema()::regnamespace ORDER BY 1"""
PARTITIONS = "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = to_regclass($1) ORDER BY 1"
IS_PLAIN = "SELECT relkind = 'r' FROM pg_class WHERE oid = to_regclass($1)"
NAME_LENGTH = 63  # PostgreSQL cuts longer names
LEFT_OVER = re.compile(r"_cc(new|old)\d*$")  # how PostgreSQL names the copies of a rebuild that was stopped


async def build(connection: Any, sql: str) -> None:
    """Build the missing indexes of a transaction's statements `CREATE INDEX IF NOT EXISTS`, one after the other.

    Skip tables that are empty or do not exist: the transaction itself makes their indexes at once. Its extensions are
    made first, but none of its other statements has run, so the index of a new column must be in a later transaction.
    Raises LockNotAvailableError if older transactions do not end.
    """
    statements = NOT_STATEMENTS.sub(" ", sql)
    for unique, name, table, rest in CREATE.findall(statements):
        if not await _exists(connection, name) and await _has_rows(connection, table):
            for extension in EXTENSION.findall(statements):
                await connection.execute(extension)
            for part in await connection.fetch(PARTITIONS, table):
                of_part = f"{part['name']}_{name.removeprefix(f'{table}_')}"[:NAME_LENGTH]
                await ensure_index(connection, of_part, f"{part['name']}{rest}", unique=bool(unique))
            if await connection.fetchval(IS_PLAIN, table):
                await ensure_index(connection, name, f"{table}{rest}", unique=bool(unique))


async def ensure_index(connection: Any, name: str, definition: str, *, unique: bool = False) -> None:
    """Build an index that is missing, such as `chat_messages (session_id, id)`. The connection is in no transaction.

    One that a stopped build left invalid is built again. Raises LockNotAvailableError if older transactions do not end.
    """
    valid = await connection.fetchval(IS_VALID, name)
    if valid:
        return
    await connection.execute(TIMEOUTS)
    if valid is False:
        await connection.execute(f"DROP INDEX CONCURRENTLY {name}")
    await connection.execute(f"CREATE {'UNIQUE ' if unique else ''}INDEX CONCURRENTLY {name} ON {definition}")


async def rebuild_invalid(connection: Any) -> None:
    """Rebuild the indexes that a stopped build left invalid: they slow down writes, and no query uses them.

    Raises LockNotAvailableError if older transactions do not end.
    """
    await connection.execute(TIMEOUTS)
    for row in await connection.fetch(INVALID):
        name = row["relname"]
        if LEFT_OVER.search(name):
            await connection.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{name}"')
        else:
            await connection.execute(f'REINDEX INDEX CONCURRENTLY "{name}"')


async def _exists(connection: Any, name: str) -> bool:
    return await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", name)


async def _has_rows(connection: Any, table: str) -> bool:
    return await _exists(connection, table) and await connection.fetchval(f"SELECT EXISTS (SELECT FROM {table})")
