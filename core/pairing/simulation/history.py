"""Read what a simulation replays: past searches, mitras' shifts, and how requests were answered."""

import collections
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import attrs

from core.config.cache import Config
from core.config.keys import KEYS
from core.config.store import CHANGED
from core.pairing.rules import Response
from core.pairing.simulation.rules import DAY, MAX_BEFORE, MAX_LOAD, TRIABLE, WEEK
from core.sessions.rules import GRACE
from core.storage import sql_files
from core.storage.reports import Reports

SQL = sql_files.load(__file__)
AT_ONCE = dt.timedelta(hours=6)  # of searches that one statement reads
RETRY = dt.timedelta(minutes=30)  # a search that follows a failed one of the customer so soon is a retry
# The spans of seconds after a request in which its answers are counted, by where each begins; the last one is open.
SPANS = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 11.0, 15.0, 20.0, 26.0, 34.0, 45.0, 60.0, 90.0, 150.0)
KINDS = (Response.ACCEPTED, Response.REJECTED)
Outcome = Literal["paired", "failed", "cancelled"]
Shift = tuple[dt.datetime, str, bool]
"""When a mitra came online (True) or went offline."""
Answers = dict[tuple[int, int], dict[str, "Seen"]]
"""How requests ended, by kind (earlier requests of the search, chats of the mitra) and mitra."""


class Seen:
    """How often something happened in each span, by what, and for how many seconds it could have."""

    def __init__(self, spans: Sequence[float] = SPANS) -> None:
        self.spans, self.open_s = spans, [0.0] * len(spans)
        self.counts = collections.defaultdict[str, list[float]](lambda: [0.0] * len(spans))

    def add(self, span: int, what: str, count: int, seconds: float) -> None:
        """Add cases that ended in a span, after these seconds together; fewer than their spans began with can't be."""
        self.counts[what][span] += count
        for earlier in range(span):
            self.open_s[earlier] += count * (self.spans[earlier + 1] - self.spans[earlier])
        self.open_s[span] += max(0.0, seconds - count * self.spans[span])


@attrs.define(eq=False, kw_only=True)
class EndedSearch:
    """What became of a search, in the past or in a replay. `rings`: its requests, which only a replay counts."""

    began_at: dt.datetime
    ended_at: dt.datetime
    outcome: Outcome | None = None
    mitra: str | None = None
    rings: int = 0
    is_guess: bool = False


@attrs.define(eq=False, kw_only=True)
class PastSearch(EndedSearch):
    """A search of the history. It ends after it begins, also if a clock was set back in between.

    `freed_at` is when the mitra had room again; None: not yet. `follows` is the search of the same customer that
    failed shortly before, and `next` the one that followed this one.
    """

    number: int
    customer: str
    freed_at: dt.datetime | None = None
    minutes: int = 0
    is_targeted: bool = False
    blocked: frozenset[str] = attrs.field(default=frozenset(), converter=frozenset)
    follows: "PastSearch | None" = attrs.field(default=None, repr=False)
    next: "PastSearch | None" = attrs.field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        self.ended_at = max(self.began_at, self.ended_at)
        self.freed_at = self.freed_at and max(self.ended_at, self.freed_at)


@attrs.frozen(kw_only=True)
class History:
    """The history from `since` to `until`, with the day before.

    `in_force`: the configurations, and since when each was in force; the present one is the last. `earlier`: the
    answers before the last week. `rung`: the requests of each day.
    """

    since: dt.datetime
    until: dt.datetime
    in_force: Sequence[tuple[dt.datetime, Config]]
    searches: Sequence[PastSearch]
    shifts: Sequence[Shift]
    answers: Answers = attrs.Factory(dict)
    earlier: Answers = attrs.Factory(dict)
    rung: Sequence[int] = ()

    @property
    def mitras(self) -> list[str]:
        """The mitras who came online or had a chat, in the order of their ids."""
        return sorted({mitra for _, mitra, _ in self.shifts} | {one.mitra for one in self.searches if one.mitra})


async def read_history(reports: Reports, config: Config, since: dt.datetime, until: dt.datetime) -> History:
    """Read the searches from `since` to `until` in small statements, from the replica if there is one.

    `config` is the present configuration. It never writes. Raises Unavailable.
    """

    async def rows(sql: str, *args: Any) -> list[Any]:
        return (await reports.fetch(sql, *args)).rows

    searches: list[PastSearch] = []
    shifts = await rows(SQL["presence"], since - DAY)
    answers, earlier, rung = {}, {}, [0] * max(1, -((since - until) // DAY))
    begin = since - DAY
    while begin < until:
        end = min(begin + AT_ONCE, until)
        shifts += await rows(SQL["shifts"], begin, end)
        found = await rows(SQL["searches"], begin, end, GRACE)
        searches += [PastSearch(number=number, **row) for number, row in enumerate(found, len(searches))]
        for row in await rows(SQL["answers"], begin, end, SPANS, MAX_LOAD, MAX_BEFORE) if begin >= since else ():
            add(answers, *row)
            if begin < until - WEEK:
                add(earlier, *row)
            rung[(begin - since) // DAY] += row["requests"]
        begin = end
    chain(searches)
    changes = await rows(SQL["changes"], TRIABLE, since, CHANGED)
    return History(
        since=since, until=until, in_force=in_force(config, changes, since), searches=searches,
        shifts=[tuple(row) for row in shifts], answers=answers, earlier=earlier, rung=rung,
    )  # fmt: skip


def add(some: Answers, before: int, load: int, mitra: str, span: int, what: str, count: int, seconds: float) -> None:
    """Add requests to a mitra that ended in a span, as `width_bucket` counts spans; `what`: the answer, if any."""
    some.setdefault((before, load), {}).setdefault(mitra, Seen()).add(max(1, span) - 1, what, count, seconds)


def answered(seen: Mapping[str, Seen]) -> int:
    """Return how many requests were accepted or rejected."""
    return round(sum(sum(one.counts[what]) for one in seen.values() for what in KINDS))


def chain(searches: Iterable[PastSearch]) -> None:
    """Find the retries."""
    unserved: dict[str, PastSearch] = {}
    for past in sorted((one for one in searches if not one.is_targeted), key=lambda one: one.began_at):
        before = unserved.pop(past.customer, None)
        if before is not None and dt.timedelta() <= past.began_at - before.ended_at < RETRY:
            past.follows, before.next = before, past
        if past.outcome != "paired":
            unserved[past.customer] = past


def in_force(config: Config, changes: Iterable[Any], since: dt.datetime) -> list[tuple[dt.datetime, Config]]:
    """Return the configurations that were in force. `changes` has the value before each change, the newest first."""
    found = [(since - DAY, config)]
    for change in changes:
        before = KEYS[change["name"]].default if change["value"] is None else change["value"]
        config = Config(**{**config.values, change["name"]: before})
        found = [(since - DAY, config), (change["at"], found[0][1]), *found[1:]]
    return found
