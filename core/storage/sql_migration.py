"""Run a migration and record it (CONTRIBUTING.md#add-a-migration)."""

import pathlib

import asyncpg

from core.storage import concurrent_indexes
from core.storage.migrations import LOCK_TIMEOUT, NEXT_TRANSACTION, id_of

# The form of Piccolo, which once ran the migrations.
RECORDS = """CREATE TABLE IF NOT EXISTS migration (
  id SERIAL PRIMARY KEY NOT NULL,
  name VARCHAR(200) NOT NULL DEFAULT '',
  app_name VARCHAR(200) NOT NULL DEFAULT '',
  ran_on TIMESTAMP NOT NULL DEFAULT current_timestamp
)"""
RECORD = "INSERT INTO migration (name, app_name) VALUES ($1, 'sesi')"


def _transactions(path: pathlib.Path) -> list[str]:
    return path.read_text(encoding="utf-8").split(NEXT_TRANSACTION)


async def run(connection: asyncpg.Connection, path: pathlib.Path) -> None:
    """Run the transactions of a migration's file. Before each one, build its indexes of tables with rows.

    A crash between two of them may repeat the first ones: each statement must work twice. Raises LockNotAvailableError
    or DeadlockDetectedError if another transaction does not end.
    """
    for part in _transactions(path):
        await concurrent_indexes.build(connection, part)
        async with connection.transaction():
            await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
            await connection.execute(part)


async def record(connection: asyncpg.Connection, path: pathlib.Path) -> None:
    """Store that a migration has run."""
    await connection.execute(RECORDS)
    await connection.execute(RECORD, id_of(path))
