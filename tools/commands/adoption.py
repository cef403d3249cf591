"""Take over a database whose tables were made by the migrations of 0.2 or of an earlier version.

Those migrations were replaced by 0001 to 0003, which create the schema of 0.2 in an empty database. Their rows in
`migration` stay, because a process of 0.2 that is still running is ready only with them.
"""

import asyncpg

from core.storage.migrations import LOCK_TIMEOUT, MIGRATIONS

FIRST = "2026-11-21T06:00:00:000000"
LAST = "2026-11-23T21:45:00:000000"  # with this one, the schema is that of 0.2
REPLACEMENTS = frozenset({"0001", "0002", "0003"})
FILES = ("before_0_2_schema.sql", "before_0_2_rows.sql")
MARK = """INSERT INTO migration (name, app_name, ran_on)
  SELECT name, 'sesi', now() FROM unnest($1::text[]) AS u(name)
  WHERE NOT EXISTS (SELECT 1 FROM migration m WHERE m.name = u.name)"""


async def adopt(url: str) -> None:
    """Prepare the database for the present migrations. Do nothing if it is empty or prepared.

    A database of 0.2 only gets the rows of 0001 to 0003 in `migration`. An earlier one is changed so that these can
    run. A crash may leave a part done; the next call does the rest. Raises LockNotAvailableError if a table is in use.
    """
    connection = await asyncpg.connect(url, timeout=5, server_settings={"lock_timeout": LOCK_TIMEOUT})
    try:
        if not await connection.fetchval("SELECT to_regclass('migration') IS NOT NULL"):
            return
        names = {row["name"] for row in await connection.fetch("SELECT name FROM migration")}
        if FIRST not in names or names >= REPLACEMENTS:
            return
        if LAST in names:
            await connection.execute(MARK, sorted(REPLACEMENTS))
        else:
            for name in FILES:
                async with connection.transaction():
                    await connection.execute((MIGRATIONS / "sql" / name).read_text())
    finally:
        await connection.close()
