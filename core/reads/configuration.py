"""Reads of configuration rows, as operators see them (docs/configuration.md)."""

import datetime as dt
from typing import Any

import attrs

from core.base.errors import NotFound
from core.config.forms import Key
from core.config.keys import KEYS
from core.config.rules import loaded
from core.runtime import Runtime
from core.sessions.views import Person
from core.storage import sql_files
from core.storage.records import plain
from core.transactions import translate_db_errors

SQL = sql_files.load(__file__)
ROW = f"""{SQL["rows"]}
WHERE k.key = $1"""


@attrs.frozen(kw_only=True)
class ConfigurationRow:
    """A configuration row: a value that operators change while the service runs."""

    key: str
    value: Any
    default: Any
    unit: str | None
    min: int | None
    max: int | None
    fraction: bool
    choices: list[str]
    meaning: str
    used: bool
    updated_at: dt.datetime | None
    updated_by: Person | None


def _row(runtime: Runtime, key: Key, stored: Any) -> ConfigurationRow:
    low, high = key.bounds or (None, None)
    if key.name == "mitra_stale_after_seconds":
        low = runtime.settings.mitra_heartbeat_cadence_seconds
    by = None
    if stored is not None and stored["updated_by"] is not None:
        by = Person(id=plain(stored["updated_by"]), display_name=stored["display_name"])
    return ConfigurationRow(
        key=key.name,
        value=key.default if stored is None else loaded(key, stored["value"]),
        default=key.default,
        unit=key.unit,
        min=low,
        max=high,
        fraction=key.fraction,
        choices=list(key.choices),
        meaning=key.meaning,
        used=key.used,
        updated_at=stored["updated_at"] if stored else None,
        updated_by=by,
    )


async def rows(runtime: Runtime) -> list[ConfigurationRow]:
    """Return the rows of all keys."""
    with translate_db_errors():
        stored = {row["key"]: row for row in await runtime.db.fetch(SQL["rows"])}
    return [_row(runtime, key, stored.get(name)) for name, key in KEYS.items()]


async def row(runtime: Runtime, name: str) -> ConfigurationRow:
    """Return the row of one key.

    Raises NotFound for an unknown key.
    """
    if name not in KEYS:
        raise NotFound
    with translate_db_errors():
        found = await runtime.db.fetchrow(ROW, name)
    return _row(runtime, KEYS[name], found)
