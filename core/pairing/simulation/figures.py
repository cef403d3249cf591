"""The figures of searches, as they happened or in a replay: sums of days, so that days can be drawn (bootstrap)."""

import bisect
import collections
import math
import zoneinfo
from collections.abc import Iterable, Mapping
from typing import Any

from core.pairing.simulation.history import EndedSearch, History
from core.pairing.simulation.rules import DAY, ZONE

FINE = 50.0  # waits are counted in classes of two percent
UPTO_S = (5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300)  # of the bars of waits
MOST_CHATS = 100  # of a mitra; more count as these
Values = dict[Any, float]
Day = collections.defaultdict[str, collections.Counter[int]]
"""Counts by kind and place: "searches" that began on the day and the "unserved" ones by hour of the week, "wait" by its
class, "load" (seconds of mitras online) by number of chats, "rung" and "guessed"."""


def days_of(history: History, searches: Iterable[EndedSearch], loads: Mapping[tuple[int, int], float]) -> list[Day]:
    """Return the counts of each day."""
    zone = zoneinfo.ZoneInfo(history.in_force[-1][1].text(ZONE))
    days = [total([]) for _ in range(max(1, -((history.since - history.until) // DAY)))]
    for one in searches:
        if history.since <= one.began_at < history.until:
            local, day = one.began_at.astimezone(zone), days[(one.began_at - history.since) // DAY]
            hour = 24 * local.weekday() + local.hour
            day["searches"][hour] += 1
            day["unserved"][hour] += one.outcome == "failed"
            day["rung"][0] += one.rings
            if one.outcome == "paired":
                day["wait"][int(math.log1p((one.ended_at - one.began_at).total_seconds()) * FINE)] += 1
                day["guessed"][0] += one.is_guess
    for (number, chats), seconds in loads.items():
        days[number]["load"][min(chats, MOST_CHATS)] += max(1, round(seconds))
    return days


def total(days: Iterable[Day]) -> Day:
    """Return the sum of days."""
    found: Day = collections.defaultdict(collections.Counter)
    for day in days:
        for kind, counts in day.items():
            found[kind].update(counts)
    return found


def values(day: Day) -> Values:
    """Return the figures (`Row` in core/pairing/simulation/rules.py)."""
    searches, online = (max(1, day[kind].total()) for kind in ("searches", "load"))
    return {
        "unserved": day["unserved"].total() / searches,
        "wait_p50": _quantile(day["wait"], 0.5),
        "wait_p90": _quantile(day["wait"], 0.9),
        "phones_rung": day["rung"].total() / searches,
        "load": sum(chats * seconds for chats, seconds in day["load"].items()) / online,
    }


def _quantile(waits: collections.Counter[int], share: float) -> float:
    """Return the wait that a share of the accepted searches did not exceed."""
    rank = share * waits.total()
    for key in sorted(waits):
        if rank <= waits[key]:
            return math.expm1((key + rank / waits[key]) / FINE)
        rank -= waits[key]
    return 0.0


def parts(day: Day) -> Values:
    """Return the figures, the unserved share of each hour of the week, and the bars of waits and loads."""
    found = values(day)
    found |= {("unserved", hour): day["unserved"][hour] / count for hour, count in day["searches"].items()}
    for key, count in day["wait"].items():
        bar = "wait", bisect.bisect_right(UPTO_S, math.expm1(key / FINE))
        found[bar] = found.get(bar, 0.0) + count / day["wait"].total()
    return found | {("load", chats): seconds / day["load"].total() for chats, seconds in day["load"].items()}
