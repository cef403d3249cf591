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

from core.pairing.simulation import figures
from core.pairing.simulation.figures import SearchFigures
from core.pairing.simulation.forecast import extra
from core.pairing.simulation.history import Answers, History, PastSearch, SearchOutcome, SettingsSince, Shift, chain
from core.pairing.simulation.replay import Mitra, Replay, Run
from core.pairing.simulation.rules import MAX_BEFORE, MAX_LOAD, SPANS, Change, tried

DAY, HOUR = dt.timedelta(days=1), dt.timedelta(hours=1)
SINCE = dt.datetime(2026, 11, 2, tzinfo=dt.UTC)  # a Monday
VALUES = {
    "blast_size": 0,
    "blast_wave_seconds": 10,
    "pairing_blast_timeout_seconds": 60,
    "searching_timeout_minutes": 5,
    "max_customers_per_mitra": 3,
}
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
    mitra: int
    load: int
    before: int
    at: dt.datetime
    seconds: float
    response: str


class WatchedReplay(Replay):
    """A replay that notes each ended request, as the service's table does."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.noted: list[Noted] = []

    def _close(self, now: dt.datetime, run: Run, mitras: Sequence[Mitra], accepted: bool | None) -> None:
        response = {True: "ACCEPTED", False: "REJECTED", None: ""}[accepted]
        for mitra in mitras:
            before, load, _, at = run.open[mitra]
            seconds = (now - at).total_seconds()
            self.noted.append(Noted(run, mitra.number, load, before, at, seconds, response))
        super()._close(now, run, mitras, accepted)


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
                number=number, customer=str(number), began_at=at, ended_at=at, outcome=SearchOutcome.PAIRED,
                minutes=draws.choice((12, 12, 12, 30, 30, 60)),
            )
            for number, at in enumerate(found)
        ]  # fmt: skip

    def _shifts(self, draws: random.Random) -> list[Shift]:
        found = []
        for mitra in range(len(self.names)):
            hour = draws.choices(range(24), weights=SUPPLY)[0]
            for day in range(-1, self.days):
                if draws.random() < 0.8:
                    begin = self.since + day * DAY + hour * HOUR + draws.gauss(-2.0, 1.0) * HOUR
                    end = begin + draws.uniform(3.0, 7.0) * HOUR
                    found += [Shift(at=at, mitra=mitra, is_online=at is begin) for at in (begin, end)]
        return sorted(found, key=lambda one: one.at)

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

    def live(self, change: Change | None = None) -> WatchedReplay:
        """Let the world happen under VALUES, or with a change of them."""
        shifts, names, values = self.shifts, self.names, VALUES
        if change is not None:
            more, names = extra(change, self.names, "UTC", self.since, self.until)
            shifts, values = [*self.shifts, *more], {**VALUES, **change.settings}
        made = WatchedReplay(
            self.arrivals, shifts, [SettingsSince(at=self.since - DAY, settings=tried(values))], self,
            mitras=names, since=self.since, until=self.until,
        )  # fmt: skip
        made.play()
        return made

    def runs(self, lived: WatchedReplay) -> list[Run]:
        """Return the searches that began in time, in order."""
        return sorted((run for run in lived.runs if run.began_at < self.until), key=lambda run: run.began_at)

    def history(self) -> History:
        """Return what a database has of the world under VALUES."""
        lived = self.live()
        searches = [self.past(run, number) for number, run in enumerate(self.runs(lived))]
        chain(searches)
        answers: Answers = {}
        recent: Answers = {}
        rung = [0] * self.days
        for one in lived.noted:
            if self.since <= one.run.began_at < self.until:
                rung[(one.run.began_at - self.since) // DAY] += 1
                some = recent if one.run.began_at >= self.until - 7 * DAY else answers
                span = sum(one.seconds >= begin for begin in SPANS)
                key = one.mitra, min(one.load, MAX_LOAD), min(one.before, MAX_BEFORE), span, one.response
                count, seconds = some.get(key, (0, 0.0))
                some[key] = count + 1, seconds + one.seconds
        return History(
            since=self.since, until=self.until, zone="UTC", values=VALUES, mitras=self.names, searches=searches,
            in_force=[SettingsSince(at=self.since - DAY, settings=tried(VALUES))], shifts=self.shifts, answers=answers,
            recent=recent, rung=rung,
        )  # fmt: skip

    def past(self, run: Run, number: int) -> PastSearch:
        """Return a search that has happened."""
        assert run.ended_at is not None
        assert run.outcome is not None
        is_paired = run.mitra is not None
        return PastSearch(
            number=number,
            customer=run.past.customer,
            began_at=run.began_at,
            ended_at=run.ended_at,
            outcome=run.outcome,
            mitra=run.mitra.number if run.mitra is not None else -1,
            freed_at=run.ended_at + self.hold(run.past, run.attempt) if is_paired else None,
            minutes=run.past.minutes,
        )

    def truth(self, change: Change, history: History) -> SearchFigures:
        """Return the figures of the world with a change."""
        return figures.of_replay(self.live(change), history, since=self.since)
