"""Reads of configuration rows, as operators see them (docs/configuration.md)."""

import datetime as dt
from typing import Any

import attrs

from core.accounts.operators.rules import allows, require
from core.base.actor import Actor
from core.base.errors import NotFound
from core.base.field_types import Person
from core.base.languages import Language
from core.config.keys import KEYS, Key
from core.config.rules import loaded
from core.pairing.simulation.rules import TRIABLE
from core.runtime.container import Runtime
from core.storage import sql_files
from core.storage.records import plain

SQL = sql_files.load(__file__)
ROW = f"""{SQL["rows"]}
WHERE k.key = $1"""


@attrs.frozen(kw_only=True)
class ConfigurationRow:
    """A configuration row: a value that operators change while the service runs.

    `area` is the area of rights that may read and write it: `config`, or `security` for a sensitive one. `triable`: a
    simulation can try other values. `label`, `group`, `meaning`, `unit` and the words of `choice_labels` are in the
    language of the request.
    """

    key: str
    label: str
    group: str
    value: Any
    default: Any
    unit: str | None
    min: int | None
    max: int | None
    fraction: bool
    choices: list[str]
    choice_labels: dict[str, str]
    meaning: str
    used: bool
    triable: bool
    area: str
    updated_at: dt.datetime | None
    updated_by: Person | None


def _row(runtime: Runtime, key: Key, stored: Any, language: Language) -> ConfigurationRow:
    low, high = key.bounds_in(production=runtime.settings.production) or (None, None)
    if key.name == "mitra_stale_after_seconds":
        low = runtime.settings.mitra_heartbeat_cadence_seconds
    by = None
    if stored is not None and stored["updated_by"] is not None:
        by = Person(id=plain(stored["updated_by"]), display_name=stored["display_name"])
    return ConfigurationRow(
        key=key.name,
        label=key.label.said_in(language),
        group=key.group.value.said_in(language),
        value=key.default if stored is None else loaded(key, stored["value"]),
        default=key.default,
        unit=None if key.unit is None else key.unit.word.said_in(language),
        min=low,
        max=high,
        fraction=key.fraction,
        choices=list(key.choices),
        choice_labels={value: words.said_in(language) for value, words in key.choices.items()},
        meaning=key.meaning.said_in(language),
        used=key.used,
        triable=key.name in TRIABLE,
        area=key.area,
        updated_at=stored["updated_at"] if stored else None,
        updated_by=by,
    )


async def rows(runtime: Runtime, actor: Actor, language: Language) -> list[ConfigurationRow]:
    """Return the rows of all keys in the areas that the operator may read."""
    stored = {row["key"]: row for row in await runtime.db.fetch(SQL["rows"])}
    return [
        _row(runtime, key, stored.get(name), language)
        for name, key in KEYS.items()
        if allows(actor.permissions, key.area, "read")
    ]


async def row(runtime: Runtime, actor: Actor, name: str, language: Language) -> ConfigurationRow:
    """Return the row of one key.

    Raises NotFound for an unknown key, Forbidden for one of an area that the operator may not read.
    """
    if name not in KEYS:
        raise NotFound
    require(actor.permissions, KEYS[name].area, "read")
    found = await runtime.db.fetchrow(ROW, name)
    return _row(runtime, KEYS[name], found, language)
