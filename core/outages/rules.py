"""What counts as an outage, and how outages are added up. Pure."""

import datetime as dt
import enum
from collections.abc import Iterable

import attrs

# Real seconds. A renewal that takes longer than a second counts as failed; two may fail before the lease ends. A process
# whose lease has ended may only be cut off from the database, and its phones with it: for a minute it is not given up.
RENEW_EVERY_S = 1.0
LEASE_S = 3.0
GIVE_UP_S = 60.0


class ProcessKind(enum.StrEnum):
    """The kinds of processes."""

    API = "api"
    REALTIME = "realtime"
    JOBS = "jobs"


class OutageKind(enum.StrEnum):
    """What was missing: a writable database, every realtime process, or every API process."""

    DATABASE = "database"
    REALTIME = "realtime"
    API = "api"


# The outage that there is while no process of a kind lives.
OUTAGE_OF = {ProcessKind.API: OutageKind.API, ProcessKind.REALTIME: OutageKind.REALTIME}

Interval = tuple[dt.datetime, dt.datetime]  # half-open: the first moment is in it, the second one is not


@attrs.frozen(kw_only=True)
class Outage:
    """A recorded outage, in service time."""

    id: str
    kind: OutageKind
    began_at: dt.datetime
    ended_at: dt.datetime


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the union of intervals as disjoint ones, in order."""
    found: list[Interval] = []
    for began, ended in sorted(intervals):
        if found and began <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], ended))
        elif began < ended:
            found.append((began, ended))
    return found


def gaps(whole: Interval, covers: Iterable[Interval], *, longer_than: dt.timedelta) -> list[Interval]:
    """Return the parts of `whole` that no cover contains and that are longer than a duration, in order."""
    found: list[Interval] = []
    at, end = whole
    for began, ended in [*merged(covers), (end, end)]:
        if min(began, end) - at > longer_than:
            found.append((at, min(began, end)))
        at = max(at, ended)
    return found
