"""What counts as an outage, how outages are added up, and how long they excuse a mitra's silence.

A mitra's silence counts only while the service could receive heartbeats (docs/product.md#heartbeat):

- While no process of the channel's kind has a lease, silence does not count. After such an outage each silence starts
  from zero, so that the phones have time to reconnect. The length of an outage has no bound.
- While single processes are disturbed (starting, late, overloaded, cut off or just dead), heartbeats of the phones
  connected to them may be lost. So silence starts from zero then, too. But the other processes serve, and a phone
  notices a dead socket within 75 s and reconnects within 30 s. So single processes excuse a silence for EXCUSE_S at
  most; otherwise one process that restarts all the time would keep silent mitras online without end.
- An outage of up to BREAK_S counts as a disturbance: a phone has time to reconnect between two of them.

The functions in `piccolo_migrations/0002_functions.sql` apply the rule; they read the two durations from the
leases.
"""

import datetime as dt
import enum
from collections.abc import Iterable

import attrs

# Real seconds. A renewal that takes longer than LEASE_ATTEMPT_S (core/runtime/container.py) counts as failed; two may
# fail before the lease ends. A process whose lease has ended may only be cut off from the database, and its phones with
# it, so it is given up after GIVE_UP_S.
RENEW_EVERY_S = 1.0
LEASE_S = 3.0
# An outage is longer than a lease. But a realtime outage that overlaps an outage of the database is recorded without
# the shared time, and its remaining parts count from PART_S on. Shorter parts are measurement errors.
PART_S = 0.75
GIVE_UP_S = 60.0
EXCUSE_S = 5 * GIVE_UP_S
BREAK_S = EXCUSE_S / 10


class ProcessKind(enum.StrEnum):
    """The kinds of processes."""

    API = "api"
    REALTIME = "realtime"
    JOBS = "jobs"


class OutageKind(enum.StrEnum):
    """The part that was missing: a writable database, every realtime process, or every API process."""

    DATABASE = "database"
    REALTIME = "realtime"
    API = "api"


# The kind of outage while no process of a kind has a lease.
OUTAGE_OF = {ProcessKind.API: OutageKind.API, ProcessKind.REALTIME: OutageKind.REALTIME}

# The kinds whose time the fair clock gives back, because no session can go on.
OF_CHAT = frozenset({OutageKind.DATABASE, OutageKind.REALTIME})

Interval = tuple[dt.datetime, dt.datetime]  # half-open: includes the first moment, excludes the second


@attrs.frozen(kw_only=True)
class Outage:
    """A recorded outage, in service time."""

    id: str
    kind: OutageKind = attrs.field(converter=OutageKind)
    began_at: dt.datetime
    ended_at: dt.datetime


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the union of intervals as disjoint intervals in order."""
    found: list[Interval] = []
    for began, ended in sorted(intervals):
        if found and began <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], ended))
        elif began < ended:
            found.append((began, ended))
    return found


def lost(outages: Iterable[Interval], *, since: dt.datetime, most: dt.timedelta) -> dt.timedelta:
    """Return how much time outages took from a session whose paid time runs since `since`, at most `most` for each."""
    parts = [(max(began, since), min(ended, max(began, since) + most)) for began, ended in outages]
    return sum((ended - began for began, ended in merged(parts)), dt.timedelta())


def gaps(whole: Interval, covers: Iterable[Interval], *, longer_than: dt.timedelta) -> list[Interval]:
    """Return the parts of `whole` outside all `covers` that are longer than `longer_than`, in order."""
    found: list[Interval] = []
    at, end = whole
    for began, ended in [*merged(covers), (end, end)]:
        if min(began, end) - at > longer_than:
            found.append((at, min(began, end)))
        at = max(at, ended)
    return found
