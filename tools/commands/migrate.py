"""Migration of the database; safe if several processes run it at the same time."""

import asyncio
import contextlib
import functools
import sys
import time
from collections.abc import AsyncIterator, Callable

import asyncpg

from core.base.errors import Unavailable
from core.base.progress import Report, unreported
from core.privacy import partition_upkeep
from core.runtime.container import Runtime
from core.settings.settings import Settings, SettingsError
from core.storage import concurrent_indexes, sql_migration
from core.storage.locks import AdvisoryLock
from core.storage.migrations import LOCK_TIMEOUT, files, migration_ids
from core.storage.servers import writable_url

PATIENCE_S = 900.0  # longer than the longest audit, whose snapshot may lock every table
RETRIED = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)
AGAIN_S = 5.0  # between two attempts; during one, statements of the service wait for at most two seconds
# What the first migrations need besides a sign-in. The owner of a database has it, unless pg_trgm is not trusted there.
RIGHTS = """SELECT
  quote_ident(current_user) AS role,
  quote_ident(current_database()) AS database,
  has_schema_privilege('public', 'CREATE') AS may_create,
  EXISTS (SELECT FROM pg_extension WHERE extname = 'pg_trgm') OR (
    has_database_privilege(current_database(), 'CREATE')
    AND EXISTS (SELECT FROM pg_available_extension_versions WHERE name = 'pg_trgm' AND (trusted OR r.rolsuper))
  ) AS has_extension
FROM pg_roles AS r
WHERE r.rolname = current_user"""


def require_direct(settings: Settings) -> None:
    """Raise SettingsError if the database is reached through a pooler, because a migration holds a lock of its session
    and a pooler would give that session to other clients."""
    if settings.through_pooler:
        raise SettingsError(
            "DATABASE_POOLER: expected none for a migration: give the server's own address in DATABASE_URL, and the "
            "option --direct or DATABASE_POOLER=none"
        )


async def pending(url: str) -> frozenset[str]:
    """Return the ids of migrations that have not run on the database. A pooler may be in between."""
    connection = await asyncpg.connect(await writable_url(url), timeout=5, statement_cache_size=0)
    try:
        if not await connection.fetchval("SELECT to_regclass('migration') IS NOT NULL"):
            return migration_ids()
        names = {row["name"] for row in await connection.fetch("SELECT name FROM migration")}
    finally:
        await connection.close()
    return migration_ids() - names


async def migrate(url: str, report: Report = unreported) -> int:
    """Run the pending migrations, one process at a time; return how many ran.

    Indexes that a stopped build left invalid are rebuilt. A migration that can't lock a table within two seconds is
    rolled back and retried. Raises RuntimeError if it fails, gets no lock for PATIENCE_S seconds, or needs a right that
    the role lacks.
    """
    url = await writable_url(url)
    async with _connected(url) as lock, _connected(url) as connection:
        await _be_the_only_one(lock)
        deadline = time.monotonic() + PATIENCE_S
        missing = sorted(await pending(url))
        if missing:
            await _check_rights(connection)
        left = list(missing)
        while not await _run(connection, left, functools.partial(_tell, report, len(missing)), deadline):
            await _wait_for_locks()
        return len(missing)


@contextlib.asynccontextmanager
async def _connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    # The session of the lock has nothing to do while the other one migrates.
    settings = {"lock_timeout": LOCK_TIMEOUT, "idle_session_timeout": "0"}
    connection = await asyncpg.connect(url, timeout=5, server_settings=settings)
    try:
        yield connection
    finally:
        await connection.close()


def _tell(report: Report, count: int, left: int) -> None:
    report(1 - left / count, f"{left} of {count} migrations left")


async def _check_rights(connection: asyncpg.Connection) -> None:
    """Raise RuntimeError with the statements of an administrator if this role may not make what migrations make."""
    (rights,) = await connection.fetch(RIGHTS)
    grants = [f"GRANT USAGE, CREATE ON SCHEMA public TO {rights['role']}"] if not rights["may_create"] else []
    extensions = ["CREATE EXTENSION pg_trgm"] if not rights["has_extension"] else []
    if missing := "; ".join([*grants, *extensions]):
        raise RuntimeError(
            f"the role {rights['role']} lacks rights in the database {rights['database']}: run there, as an "
            f"administrator: {missing}"
        )


async def _be_the_only_one(connection: asyncpg.Connection) -> None:
    """Wait for the lock of migrations, in statements of two seconds. The process that has it may build an index, and
    the build waits for every statement that began before.

    The connection does nothing else. If it built the index, PostgreSQL would see a deadlock with those that wait.
    """
    while True:
        with contextlib.suppress(asyncpg.LockNotAvailableError):
            await connection.execute("SELECT pg_advisory_lock($1)", AdvisoryLock.MIGRATION)
            return


async def _run(connection: asyncpg.Connection, left: list[str], tell: Callable[[int], None], deadline: float) -> bool:
    """Rebuild invalid indexes, then run the migrations that are `left` and remove them from the list.

    Return False if a lock was not available before the deadline, a moment of the monotonic clock. Raises RuntimeError.
    """
    doing = "rebuilding an index"
    try:
        await concurrent_indexes.rebuild_invalid(connection)
        while left:
            tell(len(left))
            doing = f"the migration {left[0]}"
            path = files()[left[0]]
            await sql_migration.run(connection, path)
            await sql_migration.record(connection, path)
            del left[0]
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        if isinstance(error, RETRIED) and time.monotonic() < deadline:
            return False
        raise RuntimeError(f"{doing} failed: {error}") from error
    return True


async def make_partitions(runtime: Runtime) -> list[str]:
    """Make the partitions of the coming months, trying again for PATIENCE_S seconds; return their names.

    Raises Unavailable if a table is locked for longer.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await partition_upkeep.make_ahead(runtime)
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            await _wait_for_locks()


async def _wait_for_locks() -> None:
    print(f"A table is locked; retrying the migration in {AGAIN_S:.0f} s.", file=sys.stderr)
    await asyncio.sleep(AGAIN_S)
