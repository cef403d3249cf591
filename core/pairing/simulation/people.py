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
from collections.abc import Mapping, Sequence

from core.pairing.simulation.history import KINDS, SPANS, Answers, History, PastSearch, Seen, answered
from core.pairing.simulation.replay import Mitra, Run
from core.pairing.simulation.rules import MAX_BEFORE, MAX_LOAD, MOST_EXTRA

LEAST_ANSWERS = 30  # of chats and earlier requests; fewer borrow
SHRINKING = 8.0  # answers: with this number, a mitra lies halfway between 1 and their own factor
ROUNDS = 3  # of fitting hazards and factors to each other
STEP = 0.25  # logarithm: factors that are nearer count as the same
DRAWS, SHIFT = 1024, 54  # answers of a table, which the upper ten of 64 bits choose
LEAVING = (0.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 240.0, 300.0, 450.0, 600.0, 900.0, 1800.0)
LATEST_S = 86_400.0
MOST_RETRIES = 100  # of a customer: in a history all may have tried again
MIX, ODD, MASK = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 2**64 - 1
Rates = list[list[float]]
"""For each of KINDS, the rates of the spans."""
Draw = tuple[dt.timedelta, bool] | None


def span_of(spans: Sequence[float], seconds: float) -> int:
    """Return the span in which these seconds lie."""
    return max(0, bisect.bisect_right(spans, seconds) - 1)


def sums(spans: Sequence[float], rates: Sequence[float]) -> list[float]:
    """Return the sum of the rates up to the beginning of each span."""
    widths = [end - begin for begin, end in itertools.pairwise(spans)]
    return [0.0, *itertools.accumulate(width * rate for width, rate in zip(widths, rates, strict=False))]


def after(cumulative: Sequence[float], spans: Sequence[float], rates: Sequence[float], sum_: float) -> float:
    """Return when the sum of the rates reaches a value; LATEST_S if it never does. `cumulative`: where spans begin."""
    span = span_of(cumulative, sum_)
    if rates[span] <= 0.0:
        return LATEST_S
    return min(LATEST_S, spans[span] + (sum_ - cumulative[span]) / rates[span])


class Fitted:
    """The mitras and customers of a history. With `as_known`, customers do what they did as far as it is known."""

    def __init__(self, history: History, answers: Answers, past: Sequence[PastSearch], *, as_known: bool) -> None:
        self._as_known, self._history = as_known, history
        self._factors: dict[str, tuple[float, float]] = {}
        self._fit(answers)
        self._tables: dict[tuple[int, int, tuple[int, int]], list[Draw]] = {}
        self._own: dict[tuple[str, int, int], list[Draw]] = {}
        self._fit_customers(past)
        self.draw(0)

    def draw(self, seed: int) -> "Fitted":
        """Draw the people's choices by a seed; return this."""
        self._seed, salts = seed, random.Random(seed)
        self._salts = [salts.getrandbits(64) for _ in self._history.searches]
        self._mitra_salts = [salts.getrandbits(64) for _ in range(len(self._history.mitras) + MOST_EXTRA)]
        return self

    # -- mitras

    def _fit(self, answers: Answers) -> None:
        """Fit the rates of each kind of requests, and each mitra's factors, to each other."""
        rates: dict[tuple[int, int], Rates] = {}
        for _ in range(ROUNDS):
            rates = {kind: self._rates(seen) for kind, seen in answers.items()}
            sums_of = collections.defaultdict[str, list[float]](lambda: [SHRINKING] * 4)  # counted, and expected
            for kind, seen in answers.items():
                for mitra, one in seen.items():
                    for n, what in enumerate(KINDS):
                        sums_of[mitra][n] += sum(one.counts[what])
                        sums_of[mitra][n + 2] += sum(map(float.__mul__, rates[kind][n], one.open_s))
            self._factors = {mitra: (own[0] / own[2], own[1] / own[3]) for mitra, own in sums_of.items()}
        known = {kind: answered(seen) for kind, seen in answers.items()}
        most = max(known, key=lambda kind: known[kind], default=(0, 0))
        enough = [kind for kind, count in known.items() if count >= LEAST_ANSWERS] or [most]
        self._rates_of = {kind: rates.get(kind) or self._rates({}) for kind in enough}

    def _rates(self, seen: Mapping[str, Seen]) -> Rates:
        """Return the rates of acceptances and of rejections. A span that was never reached has the last rate before."""
        rates: Rates = []
        for n, what in enumerate(KINDS):
            found = [0.0]
            for span in range(len(SPANS)):
                count = sum(one.counts[what][span] for one in seen.values())
                open_s = sum(self._factors.get(mitra, (1.0, 1.0))[n] * one.open_s[span] for mitra, one in seen.items())
                found.append(count / open_s if open_s >= 1.0 else found[-1])
            rates.append(found[1:])
        return rates

    def _lender(self, load: int, before: int) -> tuple[int, int]:
        """Return the kind of requests whose rates count for this one: itself, or with too few answers one below."""
        below = itertools.product(range(min(before, MAX_BEFORE), -1, -1), range(min(load, MAX_LOAD), -1, -1))
        return next((kind for kind in below if kind in self._rates_of), next(iter(self._rates_of)))

    def is_guess(self, load: int, before: int) -> bool:
        """Return whether there were too few answers of the kind."""
        return self._lender(load, before) != (min(before, MAX_BEFORE), min(load, MAX_LOAD))

    def answer(self, run: Run, mitra: Mitra, before: int) -> Draw:
        """Return when a mitra answers, and whether they accept."""
        kind = mitra.name, mitra.load, before
        table = self._own.get(kind)
        if table is None:
            table = self._own[kind] = self._table(*kind)
        mixed = (self._salts[run.past.number] + run.attempt * ODD) ^ (self._mitra_salts[mitra.number] + before * MIX)
        return table[(mixed * MIX & MASK) >> SHIFT]

    def _table(self, mitra: str, load: int, before: int) -> list[Draw]:
        """Return the answers from which one is drawn. Mitras who answer alike share them."""
        accepts, rejects = (round(math.log(max(one, 0.02)) / STEP) for one in self._factors.get(mitra, (1.0, 1.0)))
        key = accepts, rejects, self._lender(load, before)
        if key not in self._tables:
            accepting, rejecting = self._rates_of[key[2]]
            accepting = [math.exp(accepts * STEP) * rate for rate in accepting]
            both = [one + math.exp(rejects * STEP) * rate for one, rate in zip(accepting, rejecting, strict=True)]
            cumulative, draws = sums(SPANS, both), self._tables.setdefault(key, [])
            for number in range(DRAWS):
                seconds = after(cumulative, SPANS, both, -math.log1p(-(number + 0.5) / DRAWS))
                span = span_of(SPANS, seconds)
                is_accepted = (number * 0.6180339887) % 1.0 * both[span] < accepting[span]
                draws.append((dt.timedelta(seconds=seconds), is_accepted) if seconds < LATEST_S else None)
        return self._tables[key]

    # -- customers

    def _fit_customers(self, past: Sequence[PastSearch]) -> None:
        blasts, seen = [one for one in past if not one.is_targeted], Seen(LEAVING)
        for one in blasts:
            seconds = (one.ended_at - one.began_at).total_seconds()
            seen.add(span_of(LEAVING, seconds), one.outcome or "", 1, seconds)
        rates = zip(seen.counts["cancelled"], seen.open_s, strict=True)
        self._leaving = [count / seconds if seconds > 1.0 else 0.0 for count, seconds in rates]
        self._left = sums(LEAVING, self._leaving)
        unserved = [one for one in blasts if one.outcome != "paired"]
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
            if past.outcome == "cancelled":
                return known
            waited = known.total_seconds()
        span = span_of(LEAVING, waited)
        sum_ = self._left[span] + (waited - LEAVING[span]) * self._leaving[span]
        sum_ += self._random(past, run.attempt, 1).expovariate(1.0)
        return dt.timedelta(seconds=after(self._left, LEAVING, self._leaving, sum_))

    def retry(self, run: Run) -> tuple[dt.timedelta, PastSearch] | None:
        """Return when a customer without a chat tries again."""
        past = run.past
        if self._as_known and past.outcome != "paired":
            return None if past.next is None else (past.next.began_at - past.ended_at, past.next)
        again = self._retries and run.attempt < MOST_RETRIES
        delay = self._random(past, run.attempt, 2).choice(self._retries) if again else None
        return None if delay is None else (delay, past)

    def hold(self, past: PastSearch, attempt: int) -> dt.timedelta:
        """Return how long a mitra has no room for another chat because of this one."""
        if past.freed_at is not None:
            return past.freed_at - past.ended_at
        known = self._holds.get(past.minutes) or [dt.timedelta(minutes=past.minutes)]
        return self._random(past, attempt, 3).choice(known)
