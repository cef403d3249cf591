"""What becomes of a simulation, and how long it may take (docs/simulation.md)."""

import datetime as dt
import enum

from core.base.errors import DomainError, Repeat
from core.base.languages import Text

LIMIT_S = 120.0  # real; a simulation that takes longer is killed
CLAIM = dt.timedelta(seconds=10)  # real; of the jobs process that runs one, which renews it every RENEW_EVERY_S
RENEW_EVERY_S = 1.0
KEEP_FOR = dt.timedelta(days=30)
WEEK = dt.timedelta(days=7)  # after which a saved forecast is compared with what happened


class SimulationFailure(enum.StrEnum):
    """Why a simulation has no result: what its history lacks, the limit of two minutes, or the end of its process."""

    NOT_ENOUGH_HISTORY = "not_enough_history"
    TOO_SLOW = "too_slow"
    DIED = "died"


class SimulationRunning(DomainError):
    """Another simulation is running; `details.id` names it. There is one at a time."""

    code = "SIMULATION_RUNNING"
    repeat = Repeat.LATER
    message = Text(
        en="Another simulation is running. Wait for its end.",
        id="Simulasi lain sedang berjalan. Tunggu sampai selesai.",
    )
    advice = "Show the simulation that runs, and try again after its end."
