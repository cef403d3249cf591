"""Replay past searches by the service's own rules (core/pairing/rules.py), with other settings, mitras and people.

Times are datetimes, so they are whole microseconds as in the service. With scripted people a replay equals the service
search by search (tests/flows/test_simulation.py).
"""

import collections
import datetime as dt
import heapq
import itertools
from collections.abc import Callable
from typing import Any, Protocol

import attrs

from core.config.cache import Config
from core.pairing import invitations, rules
from core.pairing import search as searching
from core.pairing.rules import InvitationTally, Search
from core.pairing.simulation.history import EndedSearch, History, Outcome, PastSearch
from core.pairing.simulation.rules import DAY
from core.payments.failures.causes import CauseTag

Ring = tuple[int, int, int, dt.datetime]
"""An open request: how often this search asked the mitra before, their chats, the wave, and when it was sent."""


@attrs.define(eq=False, kw_only=True)
class Mitra:
    """A mitra of a replay. `waits_since` is when they came online or last accepted, `noted_at` when `load` or
    `is_online` was last noted."""

    number: int
    name: str
    waits_since: dt.datetime
    noted_at: dt.datetime
    is_online: bool = False
    load: int = 0


@attrs.define(eq=False, kw_only=True)
class Run(EndedSearch):
    """A search of a replay. `attempt` counts the searches that the customer began before for the same `past`."""

    past: PastSearch
    attempt: int
    search: Search
    in_wave: int = 0  # requests of the newest wave
    rung: dict[Mitra, tuple[int, int]] = attrs.Factory(dict)  # how often, and the last round
    rejected: set[Mitra] = attrs.Factory(set)
    open: dict[Mitra, Ring] = attrs.Factory(dict)
    answers: list[tuple[dt.datetime, int, Mitra, int, bool]] = attrs.Factory(list)  # a heap


class People(Protocol):
    """How mitras and customers behave. The same question always gets the same answer.

    `answer`: when a mitra answers a request, and whether they accept; `before` counts the earlier requests.
    `is_guess`: whether such an answer has no precedent. `patience`: how long a customer waits before they cancel.
    `retry`: when a customer without a chat tries again, and with which search. `hold`: how long a mitra has no room for
    another chat because of this one. None: never.
    """

    def answer(self, run: Run, mitra: Mitra, before: int) -> tuple[dt.timedelta, bool] | None: ...
    def is_guess(self, load: int, before: int) -> bool: ...
    def patience(self, run: Run) -> dt.timedelta | None: ...
    def retry(self, run: Run) -> tuple[dt.timedelta, PastSearch] | None: ...
    def hold(self, past: PastSearch, attempt: int) -> dt.timedelta: ...


class Replay:
    """One replay of a history: its `runs`, and `loads`: (day, chats) -> seconds of mitras who are online.

    With `as_it_was`, mitras take the chats that they took.
    """

    def __init__(self, history: History, people: People, *, as_it_was: bool = False) -> None:
        self._people, self._since, self._until = people, history.since, history.until
        self._events: list[Any] = []
        self._numbers = itertools.count()
        self._free: dict[Mitra, None] = {}
        self._running: dict[Run, None] = {}
        self.runs: list[Run] = []
        self.loads: dict[tuple[int, int], float] = collections.defaultdict(float)
        begin = history.since - DAY
        self._mitras = {
            name: Mitra(number=number, name=name, waits_since=begin, noted_at=begin)
            for number, name in enumerate(history.mitras)
        }
        events: list[Any] = [(at, self._configure, config) for at, config in history.in_force]
        events += [(at, self._shift, self._mitras[name], is_online) for at, name, is_online in history.shifts]
        for past in history.searches:
            if past.is_targeted or as_it_was:
                if past.mitra is not None and past.ended_at >= begin:
                    events.append((past.ended_at, self._begin_chat, self._mitras[past.mitra], past, 0))
            elif past.follows is None and past.began_at >= begin:
                events.append((past.began_at, self._begin, past, 0))
        for at, act, *what in sorted(events, key=lambda one: max(one[0], begin)):
            self._at(max(at, begin), act, *what)
        while self._events:
            at, _, act, what = heapq.heappop(self._events)
            act(at, *what)
        for mitra in self._mitras.values():
            self._change(self._until, mitra)

    def _at(self, at: dt.datetime, act: Callable[..., None], *what: Any) -> None:
        heapq.heappush(self._events, (at, next(self._numbers), act, what))

    def _configure(self, now: dt.datetime, config: Config) -> None:
        self._limits, self._waves = searching.limits(config), invitations.waves(config)
        self._capacity = config.number("max_customers_per_mitra")
        for mitra in self._mitras.values():
            self._change(now, mitra)

    # -- mitras

    def _change(self, now: dt.datetime, mitra: Mitra, chats: int = 0, is_online: bool | None = None) -> None:
        """Note a mitra's load up to now, then change it. One who becomes free is offered to the running searches that
        may ask now, as INVITING in core/pairing/eligible.py."""
        begin, end = max(mitra.noted_at, self._since), min(now, self._until)
        if mitra.is_online and begin < end:
            self.loads[(begin - self._since) // DAY, mitra.load] += (end - begin).total_seconds()
        mitra.noted_at = now
        mitra.load += chats
        mitra.is_online = mitra.is_online if is_online is None else is_online
        if chats > 0 or is_online:
            mitra.waits_since = now
        if not mitra.is_online or mitra.load >= self._capacity:
            self._free.pop(mitra, None)
        elif mitra not in self._free:
            self._free[mitra] = None
            for run in [one for one in self._running if now < one.search.round.ends_at and self._may_ask(one, mitra)]:
                self._ask(now, run, mitra)

    def _shift(self, now: dt.datetime, mitra: Mitra, is_online: bool) -> None:
        self._change(now, mitra, 0, is_online)
        for run in [] if is_online else [one for one in self._running if mitra in one.open]:
            self._close(now, run, mitra, None)
            self._end_answered_wave(now, run)

    def _begin_chat(self, now: dt.datetime, mitra: Mitra, past: PastSearch, attempt: int) -> None:
        self._change(now, mitra, 1)
        self._at(now + self._people.hold(past, attempt), self._change, mitra, -1)

    # -- searches

    def _begin(self, now: dt.datetime, past: PastSearch, attempt: int) -> None:
        search = rules.begin_search(self._limits, is_targeted=False, now=now)
        run = Run(past=past, attempt=attempt, began_at=now, ended_at=search.ends_at, search=search)
        self.runs.append(run)
        self._running[run] = None
        self._at(search.round.ends_at, self._end_round, run)
        patience = self._people.patience(run)
        if patience is not None:
            self._at(now + patience, self._end, run, "cancelled")
        self._ask(now, run)

    def _may_ask(self, run: Run, mitra: Mitra) -> bool:
        return mitra not in run.open and mitra not in run.rejected and mitra.name not in run.past.blocked

    def _ask(self, now: dt.datetime, run: Run, only: Mitra | None = None) -> None:
        """Ask the mitras that a search may ask now, as core/pairing/invitations.py does; waves ask in the order of
        LONGEST_WAITING in core/pairing/eligible.py."""
        search, round_ends_at = run.search, run.search.round.ends_at
        asking = rules.ask_now(search.wave, self._waves, asked=run.in_wave, round_ends_at=round_ends_at, now=now)
        is_wave = asking.wave.ends_at is not None
        asked = [one for one in ([only] if only and not is_wave else self._free) if self._may_ask(run, one)]
        if is_wave:
            asked.sort(key=lambda one: (run.rung.get(one, (0, 0))[1], one.waits_since, one.name))
            del asked[asking.at_most :]
        wave = rules.wave_after(search.wave, asking, invited=len(asked))
        if wave != search.wave:
            run.in_wave = run.in_wave if wave.number == search.wave.number else 0
            run.search = attrs.evolve(search, wave=wave)
            if wave.ends_at is not None:
                self._at(wave.ends_at, self._end_wave, run)
        run.in_wave += len(asked)
        run.rings += len(asked)
        for mitra in asked:
            before = run.rung.get(mitra, (0, 0))[0]
            run.rung[mitra] = before + 1, search.round.number
            run.open[mitra] = before, mitra.load, wave.number, now
            reaction = self._people.answer(run, mitra, before)
            if reaction is not None:
                heapq.heappush(run.answers, (now + reaction[0], next(self._numbers), mitra, before, reaction[1]))
        if asked:
            self._answer(now, run)

    def _answer(self, now: dt.datetime, run: Run) -> None:
        """Let the answers happen that are due, and await the next one."""
        while run.answers and run.answers[0][0] <= now:
            _, _, mitra, before, accepts = heapq.heappop(run.answers)
            ring = run.open.get(mitra)
            if ring is None or ring[0] != before:
                continue
            if not accepts:
                self._reject(now, run, mitra)
            elif mitra.load < self._capacity:  # else the acceptance is refused, and the request stays open
                run.mitra, run.is_guess = mitra.name, self._people.is_guess(ring[1], before)
                self._close(now, run, mitra, True)
                self._end(now, run, "paired")
                self._begin_chat(now, mitra, run.past, run.attempt)
        if run.answers:
            self._at(run.answers[0][0], self._answer, run)

    def _reject(self, now: dt.datetime, run: Run, mitra: Mitra) -> None:
        self._close(now, run, mitra, False)
        run.rejected.add(mitra)
        tally, anyone = self._count(run)
        if rules.after_rejection(run.search, tally, anyone_eligible=anyone) is None:
            self._end_answered_wave(now, run)
        else:
            self._end(now, run, "failed")

    def _count(self, run: Run) -> tuple[InvitationTally, bool]:
        """Return the tally of a search, and whether an eligible mitra is left; True if that does not matter."""
        tally = InvitationTally(asked=len(run.rung), rejected=len(run.rejected), open=len(run.open))
        decides = rules.depends_on_eligible(run.search, tally)
        return tally, not decides or any(self._may_ask(run, one) for one in self._free)

    def _close(self, now: dt.datetime, run: Run, mitra: Mitra, accepted: bool | None) -> None:
        """Close an open request; `accepted` is the answer, None without one."""
        del run.open[mitra]

    def _end_answered_wave(self, now: dt.datetime, run: Run) -> None:
        wave = run.search.wave
        if wave.ends_at is not None and wave.ends_at > now and all(one[2] != wave.number for one in run.open.values()):
            run.search = attrs.evolve(run.search, wave=attrs.evolve(wave, ends_at=now))
            self._at(now, self._end_wave, run)

    def _end_wave(self, now: dt.datetime, run: Run) -> None:
        ends_at = run.search.wave.ends_at
        if run.outcome is None and ends_at is not None and ends_at <= now < run.search.round.ends_at:
            self._ask(now, run)

    def _end_round(self, now: dt.datetime, run: Run) -> None:
        if run.outcome is not None:
            return
        tally, anyone = self._count(run)
        following = rules.end_of_round(run.search, tally, self._limits, anyone_eligible=anyone, now=now)
        if isinstance(following, CauseTag):
            self._end(now, run, "failed")
            return
        self._close_all(now, run)
        run.search = rules.in_round(run.search, following)
        self._at(following.ends_at, self._end_round, run)
        self._ask(now, run)

    def _close_all(self, now: dt.datetime, run: Run) -> None:
        for mitra in list(run.open):
            self._close(now, run, mitra, None)
        run.answers.clear()

    def _end(self, now: dt.datetime, run: Run, outcome: Outcome) -> None:
        if run.outcome is not None:
            return
        self._close_all(now, run)
        del self._running[run]
        run.outcome, run.ended_at = outcome, now
        run.rung.clear()
        run.rejected.clear()
        if outcome != "paired" and (again := self._people.retry(run)) is not None:
            delay, past = again
            self._at(now + delay, self._begin, past, run.attempt + 1 if past is run.past else 0)
