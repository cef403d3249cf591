"""Routes for simulations: what other settings would do (docs/simulation.md)."""

from typing import Annotated, Any

import attrs
from attrs import validators
from litestar import Request, get, post
from litestar.params import QueryParameter

from api.auth import operators
from api.parameters import path_id, query_time
from api.request_bodies import Body, integer
from core.base import languages
from core.base.actor import Actor
from core.base.pages import Items
from core.desk.simulations import simulate
from core.desk.simulations.simulate import SettingChange, Simulation
from core.pairing.simulation.rules import LEAST, MOST_DAYS, TRIABLE, Change, NotEnoughHistory, SimulationRunning
from core.runtime.container import Runtime

MOST_SHIFTS = 10


@attrs.frozen(kw_only=True)
class SimulationBody:
    """What to try: configuration rows with their new values, and mitras who would be online as well, such as
    `2@fri/18:00-22:00`. At least one of them. The forecast is made from the last `since_days` days."""

    since_days: int = integer(LEAST["days"], MOST_DAYS, default=28)
    settings: dict[str, int] = attrs.field(factory=dict, validator=validators.max_len(len(TRIABLE)))
    extra_shifts: list[str] = attrs.field(factory=list, validator=validators.max_len(MOST_SHIFTS))


@post(
    "/internal/simulations",
    status_code=202,
    dto=Body[SimulationBody],
    return_dto=None,
    **operators("config", "write", SimulationRunning, NotEnoughHistory),
)
async def simulate_change(data: SimulationBody, runtime: Runtime, actor: Actor) -> Simulation:
    """Forecast what other settings would do.

    A jobs process computes it within two minutes, one simulation at a time. It changes no setting.
    """
    change = Change(settings=data.settings, extra_shifts=data.extra_shifts)
    simulation_id = await simulate.ask(runtime, actor, since_days=data.since_days, change=change)
    return await simulate.simulation(runtime.db, simulation_id)


@get("/internal/simulations", **operators("config"))
async def simulations(runtime: Runtime) -> Items[Simulation]:
    """List the newest 20 simulations, newest first.

    They are kept for 30 days. `result` is null here.
    """
    return await simulate.simulations(runtime)


@get("/internal/simulations/{simulation_id:str}", **operators("config"))
async def simulation(simulation_id: str, runtime: Runtime) -> Simulation:
    """Return a simulation."""
    return await simulate.simulation(runtime.db, path_id(simulation_id))


@get("/internal/config/changes", **operators("config"))
async def setting_changes(
    request: Request[Any, Any, Any],
    runtime: Runtime,
    since: Annotated[str | None, QueryParameter(name="from")] = None,
    to: str | None = None,
) -> Items[SettingChange]:
    """List changes of the settings that a simulation can try, newest first.

    A change that was saved with a forecast has it, and a week later what happened. By default of the last 92 days.
    """
    begin, end = query_time("from", since), query_time("to", to)
    language = languages.of_errors(request.headers.get("Accept-Language"))
    return await simulate.changes(runtime, language, since=begin, until=end)


ROUTES = [simulate_change, simulations, simulation, setting_changes]
