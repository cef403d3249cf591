"""Changes of settings that a simulation can try: what was forecast for them, and what came of it a week later.

A saved forecast is in the audit row of the change, so it outlasts its simulation.
"""

import contextlib
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from core.base.errors import NotFound, Unavailable, ValidationFailed
from core.base.field_types import Id, Person
from core.base.languages import Language, Text
from core.base.pages import Items
from core.config.keys import KEYS
from core.config.store import CHANGED
from core.desk.reports import EARLIEST
from core.desk.simulations import simulate
from core.desk.simulations.rules import WEEK
from core.pairing.simulation.rules import TRIABLE, Row
from core.runtime.container import Runtime
from core.storage import sql_files
from core.storage.records import as_dict
from core.storage.transaction import Reader

SQL = sql_files.load(__file__)
USUAL = dt.timedelta(days=92)
MOST = 200  # changes of one answer
MOST_COMPARED = 5  # of the newest forecasts; each reads the searches of a week


@attrs.frozen(kw_only=True)
class ForecastFigure(Row):
    """A forecast figure, and what happened in the week after the change.

    `happened` is null before the end of that week, for `load`, and if the searches of that week can't be read in time.
    """

    happened: float | None


@attrs.frozen(kw_only=True)
class SettingChange:
    """A change of a setting that a simulation can try, with the forecast that it was saved with."""

    id: Id
    key: str
    label: str
    before: int | None
    after: int
    changed_at: dt.datetime
    changed_by: Person = attrs.field(converter=lambda found: Person(**found))
    simulation_id: Id | None
    forecast: list[ForecastFigure] | None


async def forecast_for(reader: Reader, simulation_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the audit row of a change says about its forecast.

    Raises ValidationFailed if the simulation has no result, or tried other values.
    """
    rule = Text(en="must be a simulation of this value that is done", id="harus simulasi nilai ini yang sudah selesai")
    try:
        found = await simulate.simulation(reader, simulation_id)
    except NotFound as error:
        raise ValidationFailed.of("simulation_id", rule) from error
    if found.result is None or any(found.settings.get(key) != value for key, value in values.items()):
        raise ValidationFailed.of("simulation_id", rule)
    return {"simulation_id": simulation_id, "forecast": [attrs.asdict(row) for row in found.result.rows]}


async def changes(
    runtime: Runtime, language: Language, *, since: dt.datetime | None, until: dt.datetime | None
) -> Items[SettingChange]:
    """Return changes of settings that a simulation can try, newest first; by default of the last 92 days."""
    end = until or runtime.now()
    begin = since or max(end, EARLIEST) - USUAL
    report = await runtime.reports.fetch(SQL["changes"], TRIABLE, begin, end, MOST, CHANGED)
    rows = [{**as_dict(row), "label": KEYS[row["key"]].label.said_in(language)} for row in report.rows]
    happened = await _happened(runtime, rows)
    for row in rows:
        came = happened.get(row["simulation_id"], {})
        if row["forecast"] is not None:
            row["forecast"] = [ForecastFigure(**one, happened=came.get(one["figure"])) for one in row["forecast"]]
    return Items(items=[SettingChange(**row) for row in rows])


async def _happened(runtime: Runtime, rows: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, float | None]]:
    """Return what happened in the week after each of the newest forecasts was saved, by its simulation."""
    saved: dict[str, dt.datetime] = {}
    for row in rows:
        if row["forecast"] is not None and row["changed_at"] + WEEK <= runtime.now():
            saved.setdefault(row["simulation_id"], row["changed_at"])
    found = {}
    with contextlib.suppress(Unavailable):  # the changes are shown without what happened
        for simulation_id, at in list(saved.items())[:MOST_COMPARED]:
            report = await runtime.reports.fetch(SQL["happened"], at, at + WEEK)
            found[simulation_id] = dict(report.rows[0])
    return found
