"""Forecast what a change of settings does: what happened, plus the difference of two replays."""

from core.base.progress import Report, unreported
from core.pairing.simulation.history import History
from core.pairing.simulation.rules import Change, Forecast


def forecast(history: History, change: Change, *, progress: Report = unreported) -> Forecast:
    """Return the forecast of a change. It computes for up to two minutes and touches no database.

    Raises ValidationFailed for a change that can't be tried, and NotEnoughHistory.
    """
    raise NotImplementedError
