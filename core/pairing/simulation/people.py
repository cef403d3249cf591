"""Fit mitras and customers to a history.

Each span of seconds after a request has a hazard: the rate at which mitras accept or reject requests that are open. So a
request that was closed by another acceptance counts as long as it was open (Kaplan and Meier). Hazards depend on the
mitra's chats and on the earlier requests of the same search. Each mitra has a factor for acceptances and one for
rejections, near to 1 while they had few requests. Customers cancel by a hazard, too.
"""

import bisect
import collections
import datetime as dt
import itertools
import math
import random
from collections.abc import Sequence

import attrs

from core.pairing.simulation.history import Answers, History, PastSearch, SearchOutcome
from core.pairing.simulation.replay import Mitra, Run
from core.pairing.simulation.rules import MAX_BEFORE, MAX_LOAD, MOST_EXTRA, SPANS

LEAST_ANSWERS = 30  # of chats and earlier requests; fewer borrow
SHRINKING = 8.0  # answers: with this number, a mitra lies halfway between 1 and their own factor
ROUNDS = 3  # of fitting hazards and factors to each other
STEP = 0.25  # logarithm: factors that are nearer count as the same
DRAWS, SHIFT = 1024, 54  # answers of a table, which the upper ten of 64 bits choose
LEAVING = (0.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 240.0, 300.0, 450.0, 600.0, 900.0, 1800.0)
LATEST_S = 86_400.0
MIX, ODD, MASK = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 2**64 - 1
Stratum = tuple[int, int]  # chats, earlier requests
Draw = tuple[dt.timedelta, bool] | None


def after(cumulative: Sequence[float], spans: Sequence[float], rates: Sequence[float], sum_: float) -> float:
    """Return when the sum of the rates reaches a value; LATEST_S if it never does. `cumulative`: where spans begin."""
    span = bisect.bisect_right(cumulative, sum_) - 1
    if rates[span] <= 0.0:
        return LATEST_S
    return min(LATEST_S, spans[span] + (sum_ - cumulative[span]) / rates[span])


def sums(spans: Sequence[float], rates: Sequence[float]) -> list[float]:
    """Return the sum of the rates up to the beginning of each span."""
    widths = [end - begin for begin, end in itertools.pairwise(spans)]
    return [0.0, *itertools.accumulate(width * rate for width, rate in zip(widths, rates, strict=False))]


@attrs.define
class Seen:
    """The requests of one kind: acceptances and rejections in each span, and for how many seconds they were open."""

    accepted: list[float] = attrs.Factory(lambda: [0.0] * len(SPANS))
    rejected: list[float] = attrs.Factory(lambda: [0.0] * len(SPANS))
    open_s: list[float] = attrs.Factory(lambda: [0.0] * len(SPANS))

    def add(self, span: int, response: str, count: int, seconds: float) -> None:
        """Add requests that ended in a span after these seconds together."""
        if response:
            (self.accepted if response == "ACCEPTED" else self.rejected)[span] += count
        for earlier in range(span):
            self.open_s[earlier] += count * (SPANS[earlier + 1] - SPANS[earlier])
        self.open_s[span] += seconds - count * SPANS[span]

    @property
    def answers(self) -> float:
        """Return how many were answered."""
        return sum(self.accepted) + sum(self.rejected)


class Fitted:
    """The mitras and customers of a history. With `as_known`, customers do what they did as far as it is known."""

    def __init__(
        self, history: History, parts: Sequence[Answers], past: Sequence[PastSearch], *, as_known: bool
    ) -> None:
        self._as_known, self._history = as_known, history
        seen: dict[tuple[int, Stratum], Seen] = collections.defaultdict(Seen)
        for part in parts:
            for (mitra, load, before, span, response), (count, seconds) in part.items():
                seen[mitra, (load, before)].add(max(1, span) - 1, response, count, seconds)
        self._fit(seen)
        self._tables: dict[tuple[int, int, Stratum], list[Draw]] = {}
        self._own: dict[tuple[int, int, int], list[Draw]] = {}
        self._fit_customers(past)
        self.draw(0)

    def draw(self, seed: int) -> "Fitted":
        """Draw the people's choices by a seed; return this."""
        self._seed, salts = seed, random.Random(seed)
        self._salts = [salts.getrandbits(64) for _ in self._history.searches]
        self._mitra_salts = [salts.getrandbits(64) for _ in range(len(self._history.mitras) + MOST_EXTRA)]
        return self

    # -- mitras

    def _fit(self, seen: dict[tuple[int, Stratum], Seen]) -> None:
        count = 1 + max((mitra for mitra, _ in seen), default=0)
        self._factors = [(1.0, 1.0)] * count
        strata = {stratum for _, stratum in seen}
        found: dict[Stratum, tuple[list[float], list[float]]] = {}
        answers: dict[Stratum, float] = collections.defaultdict(float)
        for (_, stratum), one in seen.items():
            answers[stratum] += one.answers
        for _ in range(ROUNDS):
            found = {stratum: self._rates(stratum, seen) for stratum in strata}
            self._refit(found, seen)
        self._rates_of = {stratum: rates for stratum, rates in found.items() if answers[stratum] >= LEAST_ANSWERS}
        if not self._rates_of and found:
            most = max(found, key=lambda one: answers[one])
            self._rates_of = {most: found[most]}

    def _rates(self, stratum: Stratum, seen: dict[tuple[int, Stratum], Seen]) -> tuple[list[float], list[float]]:
        """Return the rates of acceptances and of rejections in each span. A span that was never reached has the last
        rate before it."""
        rates: tuple[list[float], list[float]] = ([], [])
        own = [(self._factors[mitra], one) for (mitra, its), one in seen.items() if its == stratum]
        for span in range(len(SPANS)):
            for kind in (0, 1):
                count = sum((one.rejected if kind else one.accepted)[span] for _, one in own)
                open_s = sum(factors[kind] * one.open_s[span] for factors, one in own)
                last = rates[kind][-1] if rates[kind] else 0.0
                rates[kind].append(count / open_s if open_s >= 1.0 else last)
        return rates

    def _refit(
        self, rates: dict[Stratum, tuple[list[float], list[float]]], seen: dict[tuple[int, Stratum], Seen]
    ) -> None:
        expected, counted = ([[SHRINKING] * len(self._factors) for _ in (0, 1)] for _ in (0, 1))
        for (mitra, stratum), one in seen.items():
            for kind, counts in enumerate((one.accepted, one.rejected)):
                counted[kind][mitra] += sum(counts)
                expected[kind][mitra] += sum(map(float.__mul__, rates[stratum][kind], one.open_s))
        self._factors = [
            (counted[0][mitra] / expected[0][mitra], counted[1][mitra] / expected[1][mitra])
            for mitra in range(len(self._factors))
        ]

    def _lender(self, stratum: Stratum) -> Stratum:
        """Return the kind of requests whose rates count for this one: itself, or with too few answers one below."""
        load, before = min(stratum[0], MAX_LOAD), min(stratum[1], MAX_BEFORE)
        while (load, before) not in self._rates_of and (load or before):
            load, before = (load - 1, before) if load else (min(stratum[0], MAX_LOAD), before - 1)
        return (load, before) if (load, before) in self._rates_of else next(iter(self._rates_of))

    def is_guess(self, load: int, before: int) -> bool:
        """Return whether there were too few answers of the kind."""
        return self._lender((load, before)) != (min(load, MAX_LOAD), min(before, MAX_BEFORE))

    def answer(self, run: Run, mitra: Mitra, before: int) -> Draw:
        """Return when a mitra answers, and whether they accept."""
        kind = mitra.number, mitra.load, before
        table = self._own.get(kind)
        if table is None:
            table = self._own[kind] = self._table(*kind)
        mixed = (self._salts[run.past.number] + run.attempt * ODD) ^ (self._mitra_salts[mitra.number] + before * MIX)
        return table[(mixed * MIX & MASK) >> SHIFT]

    def _table(self, mitra: int, load: int, before: int) -> list[Draw]:
        factors = self._factors[mitra] if mitra < len(self._factors) else (1.0, 1.0)
        accepts, rejects = (round(math.log(max(one, 0.02)) / STEP) for one in factors)
        stratum = self._lender((load, before))
        key = accepts, rejects, stratum
        if key not in self._tables:
            self._tables[key] = self._draws(math.exp(accepts * STEP), math.exp(rejects * STEP), stratum)
        return self._tables[key]

    def _draws(self, accepts: float, rejects: float, stratum: Stratum) -> list[Draw]:
        rates = self._rates_of[stratum]
        accepting = [accepts * rate for rate in rates[0]]
        both = [one + rejects * rate for one, rate in zip(accepting, rates[1], strict=True)]
        cumulative = sums(SPANS, both)
        draws: list[Draw] = []
        for number in range(DRAWS):
            seconds = after(cumulative, SPANS, both, -math.log1p(-(number + 0.5) / DRAWS))
            span = bisect.bisect_right(SPANS, seconds) - 1
            is_accepted = (number * 0.6180339887) % 1.0 * both[span] < accepting[span]
            draws.append((dt.timedelta(microseconds=round(seconds * 1e6)), is_accepted) if seconds < LATEST_S else None)
        return draws

    # -- customers

    def _fit_customers(self, past: Sequence[PastSearch]) -> None:
        blasts = [one for one in past if not one.is_targeted]
        left, open_s = [0.0] * len(LEAVING), [0.0] * len(LEAVING)
        ends = [*LEAVING[1:], math.inf]
        for one in blasts:
            seconds = (one.ended_at - one.began_at).total_seconds()
            last = max(0, bisect.bisect_right(LEAVING, seconds) - 1)
            left[last] += one.outcome is SearchOutcome.CANCELLED
            for span in range(last + 1):
                open_s[span] += min(seconds, ends[span]) - LEAVING[span]
        self._leaving = [count / seconds if seconds > 1.0 else 0.0 for count, seconds in zip(left, open_s, strict=True)]
        self._left = sums(LEAVING, self._leaving)
        unserved = [one for one in blasts if one.outcome is not SearchOutcome.PAIRED]
        retries = [one.next.began_at - one.ended_at for one in unserved if one.next is not None]
        self._retries: list[dt.timedelta | None] = [*retries, *[None] * (len(unserved) - len(retries))]
        self._holds: dict[int, list[dt.timedelta]] = collections.defaultdict(list)
        for one in past:
            if one.freed_at is not None:
                self._holds[one.minutes].append(one.freed_at - one.ended_at)

    def _random(self, past: PastSearch, attempt: int, what: int) -> random.Random:
        return random.Random(f"{self._seed} {past.number} {attempt} {what}")

    def patience(self, run: Run) -> dt.timedelta | None:
        """Return how long a customer waits."""
        past, waited = run.past, 0.0
        if self._as_known and run.attempt == 0:
            known = past.ended_at - past.began_at
            if past.outcome is SearchOutcome.CANCELLED:
                return known
            waited = known.total_seconds()
        span = max(0, bisect.bisect_right(LEAVING, waited) - 1)
        sum_ = self._left[span] + (waited - LEAVING[span]) * self._leaving[span]
        sum_ += self._random(past, run.attempt, 1).expovariate(1.0)
        return dt.timedelta(microseconds=round(after(self._left, LEAVING, self._leaving, sum_) * 1e6))

    def retry(self, run: Run) -> tuple[dt.timedelta, PastSearch] | None:
        """Return when a customer without a chat tries again."""
        past = run.past
        if self._as_known and past.outcome is not SearchOutcome.PAIRED:
            return None if past.next is None else (past.next.began_at - past.ended_at, past.next)
        delay = self._random(past, run.attempt, 2).choice(self._retries) if self._retries else None
        return None if delay is None else (delay, past)

    def hold(self, past: PastSearch, attempt: int) -> dt.timedelta:
        """Return how long a mitra has no room for another chat because of this one."""
        if past.freed_at is not None:
            return past.freed_at - past.ended_at
        known = self._holds.get(past.minutes) or [dt.timedelta(minutes=past.minutes)]
        return self._random(past, attempt, 3).choice(known)
