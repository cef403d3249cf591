"""The figures of searches, as they happened or in a replay: sums of days, so that days can be drawn (bootstrap)."""

import collections
import datetime as dt
import math
import zoneinfo
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from core.pairing.simulation.history import DAY, History, SearchOutcome
from core.pairing.simulation.replay import Replay

FINE = 50.0  # waits are counted in classes of two percent
UPTO_S = (5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300)  # of the bars of waits
Values = dict[Any, float]


@attrs.define
class Day:
    """The searches that began on a day, and what followed. `loads`: number of chats -> seconds of mitras online."""

    searches: int = 0
    unserved: int = 0
    rung: int = 0
    waits: collections.Counter[int] = attrs.Factory(collections.Counter)
    loads: collections.Counter[int] = attrs.Factory(collections.Counter)

    def values(self) -> Values:
        """Return the figures (`Row` in core/pairing/simulation/rules.py)."""
        searches, online = max(1, self.searches), max(1, self.loads.total())
        return {
            "unserved": self.unserved / searches,
            "wait_p50": self._quantile(0.5),
            "wait_p90": self._quantile(0.9),
            "phones_rung": self.rung / searches,
            "load": sum(chats * seconds for chats, seconds in self.loads.items()) / online,
        }

    def _quantile(self, share: float) -> float:
        """Return the wait that a share of the accepted searches did not exceed."""
        rank = share * self.waits.total()
        for key in sorted(self.waits):
            if rank <= self.waits[key]:
                return math.expm1((key + rank / self.waits[key]) / FINE)
            rank -= self.waits[key]
        return 0.0


def total(days: Iterable[Day]) -> Day:
    """Return the sum of days."""
    found = Day()
    for day in days:
        found.searches += day.searches
        found.unserved += day.unserved
        found.rung += day.rung
        found.waits.update(day.waits)
        found.loads.update(day.loads)
    return found


@attrs.frozen
class SearchFigures:
    """The figures of each day, and of each hour of the week in the business's zone (1 is Monday).

    `guessed`: acceptances without a precedent.
    """

    days: Sequence[Day]
    hours: dict[tuple[int, int], Day]
    guessed: int = 0

    def values(self) -> Values:
        """Return all figures by name, the unserved share by hour of the week, and the parts of the distributions: of
        waits by ("wait", place in UPTO_S), of loads by ("load", chats)."""
        whole = total(self.days)
        found: Values = whole.values()
        found |= {hour: day.unserved / day.searches for hour, day in self.hours.items()}
        for key, count in whole.waits.items():
            place = "wait", sum(math.expm1(key / FINE) >= upto for upto in UPTO_S)
            found[place] = found.get(place, 0.0) + count / whole.waits.total()
        return found | {("load", chats): seconds / whole.loads.total() for chats, seconds in whole.loads.items()}


def of_replay(replay: Replay, history: History, *, since: dt.datetime) -> SearchFigures:
    """Return the figures of a replay."""
    found = ((run.began_at, run.ended_at, run.outcome, run.rings) for run in replay.runs)
    made = _counted(found, replay, history, since=since)
    return attrs.evolve(made, guessed=sum(run.is_guess for run in replay.runs))


def of_history(replay: Replay, history: History) -> SearchFigures:
    """Return the figures of what happened. `replay` is one of everything as it was."""
    past = ((one.began_at, one.ended_at, one.outcome, 0) for one in history.searches if not one.is_targeted)
    made = _counted(past, replay, history, since=history.since)
    for day, rung in zip(made.days, history.rung, strict=True):
        day.rung = rung
    return made


def _counted(
    searches: Iterable[tuple[dt.datetime, dt.datetime | None, SearchOutcome | None, int]],
    replay: Replay,
    history: History,
    *,
    since: dt.datetime,
) -> SearchFigures:
    zone = zoneinfo.ZoneInfo(history.zone)
    days = [Day() for _ in range(max(1, -((since - history.until) // DAY)))]
    hours: dict[tuple[int, int], Day] = {}
    for began_at, ended_at, outcome, rings in searches:
        if not since <= began_at < history.until or ended_at is None:
            continue
        local, day = began_at.astimezone(zone), days[(began_at - since) // DAY]
        for one in (day, hours.setdefault((local.isoweekday(), local.hour), Day())):
            one.searches += 1
            one.unserved += outcome is SearchOutcome.FAILED
        day.rung += rings
        if outcome is SearchOutcome.PAIRED:
            day.waits[int(math.log1p((ended_at - began_at).total_seconds()) * FINE)] += 1
    for number, loads in replay.loads.items():
        days[min(number, len(days) - 1)].loads.update({chats: round(seconds) for chats, seconds in loads.items()})
    return SearchFigures(days, hours)
