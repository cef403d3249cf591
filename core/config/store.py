"""Read and write configuration rows and the anchor of service time."""

import datetime as dt
from collections.abc import Mapping
from typing import Any

from core.config.keys import KEYS, Key
from core.config.rules import loaded, stored
from core.config.tables import AppConfig, ServiceClock
from core.storage import sql_files
from core.storage.database import Database
from core.storage.statements import insert, p, statement
from core.storage.transaction import Reader, Tx

# A hash of all rows. Not their newest `updated_at`: a change may have an earlier timestamp and commit later than
# another.
VERSION = "(SELECT md5(string_agg(key || ' ' || value::text, ' ' ORDER BY key)) FROM app_config)"
# All rows with their version, for the cache.
ALL = f"""
  SELECT key, value, {VERSION} AS version
  FROM app_config
"""
SQL = sql_files.load(__file__)
CHANGED = "config.set"  # the action of audit rows about changed rows
LOCK = statement(
    AppConfig.select(AppConfig.value, AppConfig.updated_at).where(AppConfig.key == p.key).lock_rows("UPDATE")
)
WRITE = statement(
    insert(AppConfig, "key value updated_at updated_by").on_conflict(
        AppConfig.key, "DO UPDATE", [AppConfig.value, AppConfig.updated_at, AppConfig.updated_by]
    )
)
# Seeding never overwrites what an operator set.
SEED = statement(insert(AppConfig, "key value updated_at").on_conflict(AppConfig.key, "DO NOTHING"))
ANCHOR = statement(ServiceClock.select(ServiceClock.anchor).where(ServiceClock.id == 1))


async def read_all(db: Database) -> tuple[dict[str, Any], str | None]:
    """Return (key -> value, version of these values).

    A key without a row has its default. The version is None if the table is empty.
    """
    rows = await db.fetch(ALL)
    found = {row["key"]: row["value"] for row in rows}
    values = {name: loaded(key, found[name]) if name in found else key.default for name, key in KEYS.items()}
    return values, rows[0]["version"] if rows else None


async def values_before(reader: Reader, row: str, *, since: dt.datetime) -> list[Any]:
    """Return the value of a row before each change of it after `since`; None if it had its default then."""
    return [found["value"] for found in await reader.fetch(SQL["values_before"], row, since, CHANGED)]


async def lock(tx: Tx, key: Key) -> tuple[Any, dt.datetime | None]:
    """Lock a row and return (its value, when it was changed) before the change; (None, None) if the row is missing."""
    row = await LOCK.first(tx, key=key.name)
    return (loaded(key, row["value"]), row["updated_at"]) if row else (None, None)


async def write(tx: Tx, key: Key, value: Any, *, operator_id: str) -> None:
    """Insert or update a row."""
    await WRITE.execute(tx, key=key.name, value=stored(key, value), updated_at=tx.now, updated_by=operator_id)


async def seed(tx: Tx, values: Mapping[str, Any]) -> int:
    """Add the rows that are missing, with their `values` or defaults; return how many."""
    added = 0
    for key in KEYS.values():
        value = stored(key, values.get(key.name, key.default))
        added += await SEED.execute(tx, key=key.name, value=value, updated_at=tx.now)
    return added


async def anchor(db: Database, wanted: dt.datetime) -> dt.datetime:
    """Return the database's anchor of service time, after storing `wanted` if it has none."""
    found = await db.fetchval(SQL["anchor"], wanted)
    return found if found is not None else await ANCHOR.value(db)
