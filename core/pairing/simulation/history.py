"""Read what a simulation replays: past searches, mitras' shifts, and how requests were answered."""

import collections
import datetime as dt
import enum
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from core.config.keys import KEYS
from core.config.rules import loaded
from core.config.store import CHANGED
from core.pairing.simulation.rules import DAYS_JUDGED, MAX_BEFORE, MAX_LOAD, SPANS, TRIABLE, SearchSettings, tried
from core.sessions.rules import GRACE
from core.storage import sql_files
from core.storage.reports import Reports

SQL = sql_files.load(__file__)
DAY = dt.timedelta(days=1)
AT_ONCE = dt.timedelta(hours=6)  # of searches that one statement reads
RETRY = dt.timedelta(minutes=30)  # a search that follows a failed one of the customer so soon is a retry
ZONE = "business_time_zone"
NO_MITRA = -1
Answers = dict[tuple[int, int, int, int, str], tuple[int, float]]
"""How requests ended: (mitra, chats, earlier requests, span, response) -> how many, and their seconds."""


class SearchOutcome(enum.Enum):
    """How a search ended."""

    PAIRED = "paired"
    FAILED = "failed"
    CANCELLED = "cancelled"


@attrs.define(eq=False, kw_only=True)
class PastSearch:
    """A search that has ended, with an acceptance if it is paired.

    `freed_at` is when the mitra had room again; None: not yet. `follows` is the search of the same customer that
    failed shortly before, and `next` the one that followed this one.
    """

    number: int
    customer: str
    began_at: dt.datetime
    ended_at: dt.datetime
    outcome: SearchOutcome
    mitra: int = NO_MITRA
    freed_at: dt.datetime | None = None
    minutes: int = 0
    is_targeted: bool = False
    blocked: frozenset[int] = frozenset()
    follows: "PastSearch | None" = attrs.field(default=None, repr=False)
    next: "PastSearch | None" = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class Shift:
    """A mitra came online or went offline."""

    at: dt.datetime
    mitra: int
    is_online: bool


@attrs.frozen(kw_only=True)
class SettingsSince:
    """SearchSettings, and since when they were in force."""

    at: dt.datetime
    settings: SearchSettings


@attrs.frozen(kw_only=True)
class History:
    """The history from `since` to `until`, with the day before.

    `values`: the present values of the rows that can be tried. `mitras`: their ids, in order; other parts have their
    places in it. `answers` and `recent`: those of requests before and in the last DAYS_JUDGED days. `rung`: the
    requests of each day.
    """

    since: dt.datetime
    until: dt.datetime
    zone: str
    values: dict[str, int]
    in_force: Sequence[SettingsSince]
    mitras: Sequence[str]
    searches: Sequence[PastSearch]
    shifts: Sequence[Shift]
    answers: Answers
    recent: Answers
    rung: Sequence[int]

    @property
    def days(self) -> int:
        """Return for how many days there are searches."""
        return 0 if not self.searches else (self.until - max(self.since, self.searches[0].began_at)) // DAY


async def read_history(reports: Reports, since: dt.datetime, until: dt.datetime) -> History:
    """Read the searches from `since` to `until` in small statements, from the replica if there is one.

    It never writes. Raises Unavailable.
    """
    found = {row["key"]: row["value"] for row in await _read(reports, SQL["values"], [*TRIABLE, ZONE])}
    values = {
        name: loaded(KEYS[name], found[name]) if name in found else KEYS[name].default for name in [*TRIABLE, ZONE]
    }
    zone = values.pop(ZONE)
    shifts = await _read(reports, SQL["presence"], since - DAY)
    mitras = sorted(str(row["id"]) for row in await _read(reports, SQL["mitras"]))
    place = {mitra_id: number for number, mitra_id in enumerate(mitras)}
    searches = []
    for begin, end in _parts(since - DAY, until):
        shifts += await _read(reports, SQL["shifts"], begin, end)
        for row in await _read(reports, SQL["searches"], begin, end, GRACE):
            searches.append(_past(row, len(searches), place))
    chain(searches)
    rung, answers, recent = [0] * max(1, -((since - until) // DAY)), {}, {}
    for begin, end in _parts(since, until):
        some = recent if begin >= until - DAYS_JUDGED * DAY else answers
        for row in await _read(reports, SQL["answers"], begin, end, list(SPANS), MAX_LOAD, MAX_BEFORE):
            _add(some, row, place)
            rung[(begin - since) // DAY] += row["requests"]
    return History(
        since=since, until=until, zone=zone, values=values, mitras=mitras, searches=searches, answers=answers,
        in_force=in_force(values, await _read(reports, SQL["changes"], list(TRIABLE), since, CHANGED), since),
        shifts=[Shift(at=row["at"], mitra=place[row["mitra_id"]], is_online=row["is_online"]) for row in shifts],
        recent=recent, rung=rung,
    )  # fmt: skip


async def _read(reports: Reports, sql: str, *args: Any) -> list[Any]:
    return (await reports.fetch(sql, *args)).rows


def _parts(since: dt.datetime, until: dt.datetime) -> Iterator[tuple[dt.datetime, dt.datetime]]:
    while since < until:
        yield since, min(since + AT_ONCE, until)
        since += AT_ONCE


def _past(row: Any, number: int, place: dict[str, int]) -> PastSearch:
    return PastSearch(
        number=number,
        customer=row["customer_id"],
        began_at=row["began_at"],
        ended_at=row["ended_at"],
        outcome=SearchOutcome(row["outcome"]),
        mitra=place.get(row["mitra_id"], NO_MITRA),
        freed_at=row["freed_at"],
        minutes=row["duration_minutes"],
        is_targeted=row["is_targeted"],
        blocked=frozenset(place[one] for one in row["blocked"] or ()),
    )


def chain(searches: Sequence[PastSearch]) -> None:
    """Find the retries."""
    unserved: dict[str, PastSearch] = {}
    for past in sorted((one for one in searches if not one.is_targeted), key=lambda one: one.began_at):
        before = unserved.pop(past.customer, None)
        if before is not None and dt.timedelta() <= past.began_at - before.ended_at < RETRY:
            past.follows, before.next = before, past
        if past.outcome is not SearchOutcome.PAIRED:
            unserved[past.customer] = past


def _add(some: Answers, row: Any, place: dict[str, int]) -> None:
    key = place[row["mitra_id"]], row["chats"], row["before"], row["span"], row["response"]
    count, seconds = some.get(key, (0, 0.0))
    some[key] = count + row["requests"], seconds + row["seconds"]


def in_force(values: dict[str, int], changes: Sequence[Any], since: dt.datetime) -> list[SettingsSince]:
    """Return the settings that were in force, the oldest first. `changes` has the value before each change, the newest
    first."""
    found = collections.deque([SettingsSince(at=since - DAY, settings=tried(values))])
    for change in changes:
        before = KEYS[change["name"]].default if change["value"] is None else change["value"]
        values = {**values, change["name"]: before}
        found[0] = attrs.evolve(found[0], at=change["at"])
        found.appendleft(SettingsSince(at=since - DAY, settings=tried(values)))
    return list(found)
