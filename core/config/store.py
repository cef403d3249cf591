"""Read and write configuration rows and the anchor of service time."""

import datetime as dt
from typing import Any

from core.config.keys import KEYS, Key
from core.config.rules import loaded, stored
from core.storage.database import Database, Tx

# A hash of all rows. Not their newest `updated_at`: a change may have an earlier timestamp and commit later than
# another.
VERSION = "(SELECT md5(string_agg(key || ' ' || value::text, ' ' ORDER BY key)) FROM app_config)"
# All rows with their version, for the cache.
ALL = f"SELECT key, value, {VERSION} AS version FROM app_config"
UPSERT = """INSERT INTO app_config (key, value, updated_at, updated_by) VALUES ($1, $2, $3, $4)
  ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at, updated_by = excluded.updated_by"""
# Seeding never overwrites what an operator set.
SEED = "INSERT INTO app_config (key, value, updated_at) VALUES ($1, $2, $3) ON CONFLICT (key) DO NOTHING"
ANCHOR = """WITH mine AS (INSERT INTO service_clock (id, anchor) VALUES (1, $1) ON CONFLICT (id) DO NOTHING RETURNING anchor)
  SELECT anchor FROM mine UNION ALL SELECT anchor FROM service_clock LIMIT 1"""


async def read_all(db: Database) -> tuple[dict[str, Any], str | None]:
    """Return (key -> value, version of these values).

    A key without a row has its default. The version is None if the table is empty.
    """
    rows = await db.fetch(ALL)
    found = {row["key"]: row["value"] for row in rows}
    values = {name: loaded(key, found[name]) if name in found else key.default for name, key in KEYS.items()}
    return values, rows[0]["version"] if rows else None


async def lock(tx: Tx, key: Key) -> Any:
    """Lock a row and return its value before the change; None if the row is missing."""
    row = await tx.fetchrow("SELECT value FROM app_config WHERE key = $1 FOR UPDATE", key.name)
    return loaded(key, row["value"]) if row else None


async def write(tx: Tx, key: Key, value: Any, *, operator_id: str) -> None:
    """Insert or update a row."""
    await tx.execute(UPSERT, key.name, stored(key, value), tx.now, operator_id)


async def seed(tx: Tx) -> int:
    """Add the rows that are missing, with their defaults; return how many."""
    added = 0
    for key in KEYS.values():
        added += await tx.execute(SEED, key.name, stored(key, key.default), tx.now)
    return added


async def anchor(db: Database, wanted: dt.datetime) -> dt.datetime:
    """Return the database's anchor of service time, after storing `wanted` if it has none."""
    row = await db.fetchval(ANCHOR, wanted)
    return row if row is not None else await db.fetchval("SELECT anchor FROM service_clock")
