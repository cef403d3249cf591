"""Made-up worlds for simulations: scripted mitras and customers, who live by the service's rules under any settings.

Each person does the same whenever the same happens to them, so a world under other settings is the truth about a
change. A world of some settings gives the history that a database would have of it.
"""

import datetime as dt
import math
import random
from collections.abc import Sequence
from typing import Any

import attrs

from core.config.cache import Config
from core.pairing.simulation import figures
from core.pairing.simulation.figures import Values
from core.pairing.simulation.forecast import changed
from core.pairing.simulation.history import SPANS, Answers, History, PastSearch, Shift, add, chain
from core.pairing.simulation.replay import Mitra, Replay, Run
from core.pairing.simulation.rules import DAY, MAX_BEFORE, MAX_LOAD, Change

HOUR = dt.timedelta(hours=1)
SINCE = dt.datetime(2026, 11, 2, tzinfo=dt.UTC)  # a Monday
VALUES = {
    "blast_size": 0,
    "blast_wave_seconds": 10,
    "pairing_blast_timeout_seconds": 60,
    "searching_timeout_minutes": 5,
    "max_customers_per_mitra": 3,
}


def plan(
    searches: Sequence[PastSearch],
    shifts: Sequence[Shift],
    values: dict[str, int],
    *,
    since: dt.datetime = SINCE,
    until: dt.datetime,
) -> History:
    """Return a history that can be replayed: nothing in it was answered yet."""
    config = Config(business_time_zone="UTC", **values)
    return History(since=since, until=until, in_force=[(since - DAY, config)], searches=searches, shifts=shifts)


# Searches and mitras by hour of the day: quiet nights, busy evenings.
DEMAND = [2, 1, 1, 1, 1, 2, 4, 6, 7, 8, 9, 9, 10, 9, 9, 10, 11, 13, 16, 19, 20, 18, 12, 6]
SUPPLY = [2, 1, 1, 1, 1, 3, 5, 7, 8, 8, 9, 9, 9, 9, 9, 10, 11, 12, 14, 15, 15, 13, 9, 4]


@attrs.frozen
class Traits:
    """What a mitra is like: the median seconds to an answer, and how likely they notice a request and accept it."""

    seconds: float
    notices: float
    accepts: float


@attrs.frozen
class Noted:
    """An ended request."""

    run: Run
    mitra: str
    load: int
    before: int
    at: dt.datetime
    seconds: float
    response: str


class WatchedReplay(Replay):
    """A replay that notes each ended request, as the service's table does."""

    def __init__(self, *args: Any, **more: Any) -> None:
        self.noted: list[Noted] = []
        super().__init__(*args, **more)

    def _close(self, now: dt.datetime, run: Run, mitra: Mitra, accepted: bool | None) -> None:
        response = {True: "ACCEPTED", False: "REJECTED", None: ""}[accepted]
        before, load, _, at = run.open[mitra]
        self.noted.append(Noted(run, mitra.name, load, before, at, (now - at).total_seconds(), response))
        super()._close(now, run, mitra, accepted)


class World:
    """Mitras, customers and searches of some days. `eager`: mitras answer in half the time in a wave."""

    def __init__(
        self,
        seed: int,
        *,
        days: int = 14,
        a_day: float = 215.0,
        mitras: int = 26,
        eager: bool = False,
        since: dt.datetime = SINCE,
    ) -> None:
        self.seed, self.days, self.eager, self.since = seed, days, eager, since
        draws = random.Random(f"world {seed}")
        self.until = self.since + days * DAY
        self.names = [f"00000000-0000-7000-8000-{number:012d}" for number in range(mitras)]
        self.traits = [
            Traits(
                seconds=draws.lognormvariate(math.log(14.0), 0.6),
                notices=draws.uniform(0.35, 0.95),
                accepts=draws.uniform(0.45, 0.98),
            )
            for _ in range(mitras + 200)
        ]
        self.arrivals = self._arrivals(draws, a_day)
        self.shifts = self._shifts(draws)

    def _arrivals(self, draws: random.Random, a_day: float) -> list[PastSearch]:
        found: list[dt.datetime] = []
        for hour in range(-24, self.days * 24):
            at = self.since + hour * HOUR
            busy = draws.lognormvariate(0.0, 0.25) * (1.3 if at.weekday() == 4 and at.hour >= 17 else 1.0)
            expected = a_day * DEMAND[at.hour] / sum(DEMAND) * busy
            at += dt.timedelta(seconds=draws.expovariate(expected / 3600.0))
            while at < self.since + (hour + 1) * HOUR:
                found.append(at)
                at += dt.timedelta(seconds=draws.expovariate(expected / 3600.0))
        return [
            PastSearch(
                number=number, customer=str(number), began_at=at, ended_at=at, outcome="paired",
                minutes=draws.choice((12, 12, 12, 30, 30, 60)),
            )
            for number, at in enumerate(found)
        ]  # fmt: skip

    def _shifts(self, draws: random.Random) -> list[Shift]:
        found: list[Shift] = []
        for mitra in self.names:
            hour = draws.choices(range(24), weights=SUPPLY)[0]
            for day in range(-1, self.days):
                if draws.random() < 0.8:
                    begin = self.since + day * DAY + hour * HOUR + draws.gauss(-2.0, 1.0) * HOUR
                    end = begin + draws.uniform(3.0, 7.0) * HOUR
                    found += [(begin, mitra, True), (end, mitra, False)]
        return sorted(found, key=lambda one: one[0])

    # -- how people behave

    def _draws(self, run: Run, *more: object) -> random.Random:
        return random.Random(f"{self.seed} {run.past.number} {run.attempt} {more}")

    def answer(self, run: Run, mitra: Mitra, before: int) -> tuple[dt.timedelta, bool] | None:
        traits, draws = self.traits[mitra.number], self._draws(run, mitra.number, before)
        if draws.random() > traits.notices * 0.8**before:
            return None
        accepts = draws.random() < traits.accepts * (0.9, 0.85, 0.75, 0.6)[min(mitra.load, 3)]
        slow = 1.0 + 0.25 * mitra.load
        if self.eager and run.search.wave.number:
            slow *= 0.5
        seconds = draws.lognormvariate(math.log(traits.seconds * slow), 0.7)
        return dt.timedelta(microseconds=round(seconds * 1e6)), accepts

    def is_guess(self, load: int, before: int) -> bool:
        return False

    def patience(self, run: Run) -> dt.timedelta | None:
        draws = self._draws(run, "patience")
        return dt.timedelta(microseconds=round(draws.expovariate(1 / 120.0) * 1e6)) if draws.random() < 0.2 else None

    def retry(self, run: Run) -> tuple[dt.timedelta, PastSearch] | None:
        draws = self._draws(run, "retry")
        return (dt.timedelta(seconds=draws.uniform(20.0, 900.0)), run.past) if draws.random() < 0.3 else None

    def hold(self, past: PastSearch, attempt: int) -> dt.timedelta:
        draws = random.Random(f"{self.seed} {past.number} hold")
        extended = past.minutes * (draws.random() < 0.15)
        return dt.timedelta(minutes=past.minutes + extended, microseconds=round(draws.uniform(1e6, 3e8)))

    # -- what happens

    def plan(self) -> History:
        """Return what is to happen under VALUES."""
        return plan(self.arrivals, self.shifts, VALUES, since=self.since, until=self.until)

    def live(self, change: Change | None = None) -> WatchedReplay:
        """Let the world happen under VALUES, or with a change of them."""
        return WatchedReplay(self.plan() if change is None else changed(self.plan(), change), self)

    def live_with_change(self, change: Change, at: dt.datetime) -> WatchedReplay:
        """Let the world happen under VALUES up to a moment, and then with a change of them."""
        plan = self.plan()
        (_, later), *_ = changed(plan, change).in_force
        return WatchedReplay(attrs.evolve(plan, in_force=[*plan.in_force, (at, later)]), self)

    def runs(self, lived: WatchedReplay) -> list[Run]:
        """Return the searches that began in time, in order."""
        return sorted((run for run in lived.runs if run.began_at < self.until), key=lambda run: run.began_at)

    def history(self) -> History:
        """Return what a database has of the world under VALUES."""
        lived = self.live()
        searches = [self.past(run, number) for number, run in enumerate(self.runs(lived))]
        chain(searches)
        answers: Answers = {}
        earlier: Answers = {}
        rung = [0] * self.days
        for one in lived.noted:
            if self.since <= one.run.began_at < self.until:
                rung[(one.run.began_at - self.since) // DAY] += 1
                span = sum(one.seconds >= begin for begin in SPANS)
                kind = min(one.before, MAX_BEFORE), min(one.load, MAX_LOAD)
                for some in (answers, earlier) if one.run.began_at < self.until - 7 * DAY else (answers,):
                    add(some, *kind, one.mitra, span, one.response, 1, one.seconds)
        return attrs.evolve(self.plan(), searches=searches, answers=answers, earlier=earlier, rung=rung)

    def past(self, run: Run, number: int) -> PastSearch:
        """Return a search that has happened."""
        assert run.outcome is not None
        return PastSearch(
            number=number,
            customer=run.past.customer,
            began_at=run.began_at,
            ended_at=run.ended_at,
            outcome=run.outcome,
            mitra=run.mitra,
            freed_at=None if run.mitra is None else run.ended_at + self.hold(run.past, run.attempt),
            minutes=run.past.minutes,
        )

    def truth(self, change: Change) -> Values:
        """Return the figures of the world with a change."""
        lived = self.live(change)
        return figures.values(figures.total(figures.days_of(self.plan(), lived.runs, lived.loads)))
