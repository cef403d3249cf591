"""Brings the database up to date; safe when several processes do it at once (specification, Versioning 2)."""

import asyncio
import contextlib
import os
import sys
import time

import asyncpg

from core.runtime import MIGRATION_LOCK, migration_ids
from core.storage.servers import writable_url

PATIENCE_S = 900.0  # longer than the longest audit, whose snapshot may hold locks on every table
AGAIN_S = 5.0  # between two tries: statements of the service wait behind a try for at most two seconds


async def pending(url: str) -> frozenset[str]:
    """Return the ids of migrations that the database lacks."""
    connection = await asyncpg.connect(await writable_url(url), timeout=5)
    try:
        if not await connection.fetchval("SELECT to_regclass('migration') IS NOT NULL"):
            return migration_ids()
        names = {row["name"] for row in await connection.fetch("SELECT name FROM migration")}
    finally:
        await connection.close()
    return migration_ids() - names


async def migrate(url: str) -> int:
    """Run what is missing, one process at a time; return how many migrations ran.

    A migration that can't lock a table within two seconds is rolled back and tried again. Raises RuntimeError when it
    fails, or gets no lock for PATIENCE_S.
    """
    url = await writable_url(url)
    connection = await asyncpg.connect(url, timeout=5)
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", MIGRATION_LOCK)
        missing = await pending(url)
        deadline = time.monotonic() + PATIENCE_S
        while missing and not await _forwards(url, last=time.monotonic() > deadline):
            print(f"A table is in use: the migration tries again in {AGAIN_S:.0f} s.", file=sys.stderr)
            await asyncio.sleep(AGAIN_S)
        return len(missing)
    finally:
        await connection.close()


async def _forwards(url: str, *, last: bool) -> bool:
    """Run Piccolo in a process of its own: its engine is a global that belongs to one loop and one database.

    Returns False when a lock was not to be had; the `last` try raises RuntimeError for that too.
    """
    code = (
        "import asyncio\n"
        "from piccolo.apps.migrations.commands.forwards import run_forwards\n"
        "result = asyncio.run(run_forwards(app_name='sesi'))\n"
        "raise SystemExit(0 if result.success else 1)\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "ignore",
        "-c",
        code,
        env={**os.environ, "PICCOLO_CONF": "core.storage.piccolo_conf", "DATABASE_URL": url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        out, _ = await process.communicate()
    except BaseException:  # stopped: the lock is let go only when nobody migrates any more
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        raise
    if b"LockNotAvailableError" in out and not last:
        return False
    if process.returncode != 0 or b"Traceback" in out:
        raise RuntimeError(f"the migration failed:\n{out.decode(errors='replace')[-4000:]}")
    return True
