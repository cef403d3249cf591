"""Ask for a simulation, run it in a jobs process, and show it (docs/simulation.md).

The API process stores a row, and a jobs process claims it within seconds. It renews the claim while its child process
computes. If the jobs process dies, the child does too, and the sweep of another one ends the simulation when the claim
is over. Each step is one guarded statement, so two processes never do the same one. A forecast that was saved with a
change is in its audit row, so it outlasts the simulation.
"""

import contextlib
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs
import msgspec
from attrs import converters

from core.accounts.operators import store as operators
from core.base import ids
from core.base.actor import Actor
from core.base.errors import NotFound, Unavailable, ValidationFailed
from core.base.field_types import Id, Person
from core.base.id_ranges import since as ids_since
from core.base.languages import Language, Text
from core.base.pages import Items
from core.config.keys import KEYS
from core.config.store import CHANGED
from core.desk.reports import EARLIEST
from core.pairing.simulation import rules
from core.pairing.simulation.rules import LEAST, TRIABLE, WEEK, Change, Forecast, Row, SimulationFailure
from core.runtime.container import Runtime
from core.storage import sql_files
from core.storage.records import as_dict, many, one, plain
from core.storage.transaction import Reader
from core.telemetry import metrics

SQL = sql_files.load(__file__)
CLAIM = dt.timedelta(seconds=10)  # real; of the jobs process that runs a simulation, which renews it
KEEP_FOR = dt.timedelta(days=30)
USUAL = dt.timedelta(days=92)  # of changes
MOST = 200  # changes of one answer
MOST_COMPARED = 5  # of the newest forecasts; each reads the searches of a week
WRONG = Text(en="must be a simulation of this value that is done", id="harus simulasi nilai ini yang sudah selesai")


@attrs.frozen(kw_only=True)
class Simulation:
    """A forecast of what other settings would do, from the last `since_days` days. `percent` is how much is done.

    A `failed` one has a `failure`: `too_slow`, `died` with its process, or `not_enough_history`, whose `details` say
    what is missing.
    """

    id: Id
    status: Literal["running", "done", "failed"]
    percent: int
    asked_by: Person = attrs.field(converter=lambda found: Person(**found))
    asked_at: dt.datetime
    ended_at: dt.datetime | None
    since_days: int
    settings: dict[str, int]
    extra_shifts: list[str]
    failure: SimulationFailure | None = attrs.field(converter=converters.optional(SimulationFailure))
    details: dict[str, Any] | None
    result: Forecast | None = attrs.field(converter=converters.optional(lambda found: msgspec.convert(found, Forecast)))


async def ask(runtime: Runtime, actor: Actor, *, since_days: int, change: Change) -> str:
    """Store a simulation for a jobs process to run; return its id.

    Raises ValidationFailed, NotEnoughHistory, SimulationRunning.
    """
    change.check()
    now, clock = runtime.now(), runtime.clock
    since = now - dt.timedelta(days=since_days)
    least = LEAST["searches"], LEAST["answers"]
    first_id = ids_since(clock.real_time(since), scale=clock.scale)
    rules.check_history(dict(await runtime.db.fetchrow(SQL["history"], since, now, first_id, *least)))
    wanted, simulation_id = {"since_days": since_days, **attrs.asdict(change)}, ids.new_id()
    async with runtime.transaction() as tx:
        if not await tx.fetchval(SQL["add"], simulation_id, actor.user_id, tx.now, *wanted.values()):
            raise rules.SimulationRunning(details={"id": plain(await tx.fetchval(SQL["unended"]))})
        await operators.audit(tx, actor.user_id, "simulation.asked", "simulation", simulation_id, after=wanted)
    return simulation_id


async def simulation(reader: Reader, simulation_id: str) -> Simulation:
    """Return a simulation. Raises NotFound, also 30 days after its end."""
    found = one(Simulation, await reader.fetchrow(SQL["simulations"], simulation_id))
    if found is None:
        raise NotFound
    return found


async def simulations(runtime: Runtime) -> Items[Simulation]:
    """Return the newest simulations, newest first, without their results."""
    return Items(items=many(Simulation, await runtime.db.fetch(SQL["simulations"], None)))


async def claim(runtime: Runtime) -> Simulation | None:
    """Take the simulation that waits, if any, and end one whose process has died. Raises Unavailable."""
    if await runtime.db.fetchval(SQL["unended"]) is None:
        return None
    async with runtime.transaction() as tx:
        abandoned = await tx.execute(SQL["end_abandoned"], tx.now, SimulationFailure.DIED)
        tx.count(metrics.SIMULATIONS.labels(SimulationFailure.DIED), abandoned)
        found = await tx.fetchval(SQL["claim"], runtime.node, CLAIM)
        return None if found is None else await simulation(tx, plain(found))


async def renew(runtime: Runtime, simulation_id: str, *, percent: int) -> bool:
    """Renew the claim and store the progress; return False if the simulation has ended. Raises Unavailable."""
    async with runtime.transaction() as tx:
        return bool(await tx.execute(SQL["renew"], simulation_id, runtime.node, CLAIM, percent))


async def finish(
    runtime: Runtime, simulation_id: str, *, result: Any = None, failure: str | None = None, details: Any = None
) -> None:
    """End a simulation with its result or failure, unless it has ended before. Raises Unavailable."""
    async with runtime.transaction() as tx:
        if await tx.execute(SQL["finish"], simulation_id, runtime.node, tx.now, result, failure, details):
            tx.count(metrics.SIMULATIONS.labels(failure or "done"))


async def purge(runtime: Runtime) -> None:
    """Sweep: delete the simulations that ended 30 days ago."""
    async with runtime.transaction() as tx:
        await tx.execute(SQL["purge"], tx.now - KEEP_FOR)


# -- changes of settings that a simulation can try


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
    try:
        found = await simulation(reader, simulation_id)
    except NotFound as error:
        raise ValidationFailed.of("simulation_id", WRONG) from error
    if found.result is None or any(found.settings.get(key) != value for key, value in values.items()):
        raise ValidationFailed.of("simulation_id", WRONG)
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
