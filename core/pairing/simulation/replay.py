"""Replay past searches by the service's own rules (core/pairing/rules.py), with other settings, mitras and people.

Times are datetimes, so they are whole microseconds as in the service. With scripted people a replay equals the service
search by search (tests/simulation).
"""

import datetime as dt
import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import attrs

from core.pairing import rules
from core.pairing.rules import InvitationTally, Search
from core.pairing.simulation.history import DAY, NO_MITRA, PastSearch, SearchOutcome, SettingsSince, Shift
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
class Run:
    """A search of a replay. `attempt` counts the searches that the customer began before for the same `past`."""

    past: PastSearch
    attempt: int
    began_at: dt.datetime
    search: Search
    rings: int = 0
    in_wave: int = 0  # requests of the newest wave
    rung: dict[Mitra, tuple[int, int]] = attrs.Factory(dict)  # how often, and the last round
    rejected: dict[Mitra, None] = attrs.Factory(dict)
    open: dict[Mitra, Ring] = attrs.Factory(dict)
    answers: list[tuple[dt.datetime, int, Mitra, int, bool]] = attrs.Factory(list)  # the next one is the last
    outcome: SearchOutcome | None = None
    ended_at: dt.datetime | None = None
    mitra: Mitra | None = None
    is_guess: bool = False


class People(Protocol):
    """How mitras and customers behave. The same question always gets the same answer."""

    def answer(self, run: Run, mitra: Mitra, before: int) -> tuple[dt.timedelta, bool] | None:
        """Return when a mitra answers a request, and whether they accept; None: never. `before`: earlier requests."""
        ...

    def is_guess(self, load: int, before: int) -> bool:
        """Return whether an answer has no precedent."""
        ...

    def patience(self, run: Run) -> dt.timedelta | None:
        """Return how long a customer waits before they cancel; None: to the end."""
        ...

    def retry(self, run: Run) -> tuple[dt.timedelta, PastSearch] | None:
        """Return when a customer without a chat tries again, and with which search; None: they do not."""
        ...

    def hold(self, past: PastSearch, attempt: int) -> dt.timedelta:
        """Return how long a mitra has no room for another chat because of this one."""
        ...


class Replay:
    """One replay. `play` fills `runs`, and `loads`: day -> number of chats -> seconds of mitras who are online."""

    def __init__(
        self,
        searches: Iterable[PastSearch],
        shifts: Iterable[Shift],
        in_force: Sequence[SettingsSince],
        people: People,
        *,
        mitras: Sequence[str],
        since: dt.datetime,
        until: dt.datetime,
        as_it_was: bool = False,
    ) -> None:
        self._people, self._since, self._until = people, since, until
        self._numbers = itertools.count()
        self._settings = in_force[0].settings
        self._free: dict[Mitra, None] = {}
        self._running: dict[Run, None] = {}
        self.runs: list[Run] = []
        self.loads: dict[int, dict[int, float]] = {}
        self.mitras = [
            Mitra(number=number, name=name, waits_since=since - DAY, noted_at=since - DAY)
            for number, name in enumerate(mitras)
        ]
        begin = since - DAY
        events: list[Any] = [(max(one.at, begin), self._configure, (one.settings,)) for one in in_force]
        events += [(max(one.at, begin), self._shift, (one,)) for one in shifts]
        for past in searches:
            if past.is_targeted or as_it_was:
                if past.mitra != NO_MITRA and past.ended_at >= begin:
                    events.append((past.ended_at, self._take, (past,)))
            elif past.follows is None and past.began_at >= begin:
                events.append((past.began_at, self._begin, (past, 0)))
        events.sort(key=lambda one: one[0])
        self._events = [(at, next(self._numbers), act, what) for at, act, what in events]

    def play(self) -> "Replay":
        """Let everything happen; return this."""
        events = self._events
        while events:
            at, _, act, what = heapq.heappop(events)
            act(at, *what)
        for mitra in self.mitras:
            self._note(self._until, mitra)
        return self

    def _at(self, at: dt.datetime, act: Callable[..., None], *what: Any) -> None:
        heapq.heappush(self._events, (at, next(self._numbers), act, what))

    def _configure(self, now: dt.datetime, settings: Any) -> None:
        self._settings = settings
        for mitra in self.mitras:
            self._set_free(now, mitra)

    # -- mitras

    def _note(self, now: dt.datetime, mitra: Mitra) -> None:
        """Add the time since `noted_at` to the mitra's load."""
        begin, end = max(mitra.noted_at, self._since), min(now, self._until)
        if mitra.is_online and begin < end:
            times = self.loads.setdefault((begin - self._since) // DAY, {})
            times[mitra.load] = times.get(mitra.load, 0.0) + (end - begin).total_seconds()
        mitra.noted_at = now

    def _set_free(self, now: dt.datetime, mitra: Mitra) -> None:
        """Note whether a mitra can take another chat. One who has become able to is offered to the running searches."""
        if not (mitra.is_online and mitra.load < self._settings.capacity):
            self._free.pop(mitra, None)
        elif mitra not in self._free:
            self._free[mitra] = None
            self._offer(now, mitra)

    def _offer(self, now: dt.datetime, mitra: Mitra) -> None:
        """Ask a free mitra in the running searches that may ask now, as INVITING in core/pairing/eligible.py."""
        size = self._settings.waves.size
        for run in list(self._running):
            wave = run.search.wave
            is_full = wave.ends_at is not None and now < wave.ends_at and run.in_wave >= size > 0
            if now < run.search.round.ends_at and not is_full and self._may_ask(run, mitra):
                self._ask(now, run, mitra)

    def _shift(self, now: dt.datetime, shift: Shift) -> None:
        mitra = self.mitras[shift.mitra]
        self._note(now, mitra)
        mitra.is_online = shift.is_online
        if shift.is_online:
            mitra.waits_since = now
        self._set_free(now, mitra)
        if not shift.is_online:
            for run in [one for one in self._running if mitra in one.open]:
                self._close(now, run, [mitra], None)
                self._end_answered_wave(now, run)

    def _take(self, now: dt.datetime, past: PastSearch) -> None:
        """Begin a chat that is replayed as it was."""
        self._begin_chat(now, self.mitras[past.mitra], self._people.hold(past, 0))

    def _begin_chat(self, now: dt.datetime, mitra: Mitra, hold: dt.timedelta) -> None:
        self._note(now, mitra)
        mitra.load += 1
        mitra.waits_since = now
        self._set_free(now, mitra)
        self._at(now + hold, self._end_chat, mitra)

    def _end_chat(self, now: dt.datetime, mitra: Mitra) -> None:
        self._note(now, mitra)
        mitra.load -= 1
        self._set_free(now, mitra)

    # -- searches

    def _begin(self, now: dt.datetime, past: PastSearch, attempt: int) -> None:
        search = rules.begin_search(self._settings.limits, is_targeted=False, now=now)
        run = Run(past=past, attempt=attempt, began_at=now, search=search)
        self.runs.append(run)
        self._running[run] = None
        self._at(search.round.ends_at, self._end_round, run)
        patience = self._people.patience(run)
        if patience is not None and now + patience < search.ends_at:
            self._at(now + patience, self._leave, run)
        self._ask(now, run)

    def _leave(self, now: dt.datetime, run: Run) -> None:
        if run.outcome is None:
            self._end(now, run, SearchOutcome.CANCELLED)

    def _may_ask(self, run: Run, mitra: Mitra) -> bool:
        return mitra not in run.open and mitra not in run.rejected and mitra.number not in run.past.blocked

    def _ask(self, now: dt.datetime, run: Run, only: Mitra | None = None) -> None:
        """Ask the mitras that a search may ask now, as core/pairing/invitations.py does."""
        search = run.search
        asking = rules.ask_now(
            search.wave, self._settings.waves, asked=run.in_wave, round_ends_at=search.round.ends_at, now=now
        )
        is_wave = asking.wave.ends_at is not None
        asked = [one for one in ([only] if only and not is_wave else self._free) if self._may_ask(run, one)]
        if is_wave:
            asked = heapq.nsmallest(asking.at_most, asked, key=lambda one: self._place(run, one))
        wave = rules.wave_after(search.wave, asking, invited=len(asked))
        if wave != search.wave:
            run.in_wave = run.in_wave if wave.number == search.wave.number else 0
            run.search = attrs.evolve(search, wave=wave)
            if wave.ends_at is not None:
                self._at(wave.ends_at, self._end_wave, run)
        run.in_wave += len(asked)
        self._ring(now, run, asked)

    def _place(self, run: Run, mitra: Mitra) -> tuple[int, dt.datetime, str]:
        """Return a mitra's place in the queue of a search's waves: LONGEST_WAITING in core/pairing/eligible.py."""
        return run.rung.get(mitra, (0, 0))[1], mitra.waits_since, mitra.name

    def _ring(self, now: dt.datetime, run: Run, mitras: Sequence[Mitra]) -> None:
        round_, wave, answer = run.search.round, run.search.wave.number, self._people.answer
        for mitra in mitras:
            before = run.rung[mitra][0] if mitra in run.rung else 0
            run.rung[mitra] = before + 1, round_.number
            run.open[mitra] = before, mitra.load, wave, now
            reaction = answer(run, mitra, before)
            if reaction is not None and (at := now + reaction[0]) < round_.ends_at:
                run.answers.append((at, next(self._numbers), mitra, before, reaction[1]))
        run.rings += len(mitras)
        run.answers.sort(reverse=True)  # no two have the same number, so mitras are never compared
        self._await_answer(run)

    def _await_answer(self, run: Run) -> None:
        if run.answers:
            self._at(run.answers[-1][0], self._answer, run)

    def _answer(self, now: dt.datetime, run: Run) -> None:
        """Let the answers happen that are due."""
        while run.outcome is None and run.answers and run.answers[-1][0] <= now:
            _, _, mitra, before, accepts = run.answers.pop()
            ring = run.open.get(mitra)
            if ring is None or ring[0] != before:
                continue
            if not accepts:
                self._reject(now, run, mitra)
            elif mitra.load < self._settings.capacity:  # else the acceptance is refused, and the request stays open
                run.mitra, run.is_guess = mitra, self._people.is_guess(ring[1], before)
                self._close(now, run, [mitra], True)
                self._end(now, run, SearchOutcome.PAIRED)
                self._begin_chat(now, mitra, self._people.hold(run.past, run.attempt))
        self._await_answer(run)

    def _reject(self, now: dt.datetime, run: Run, mitra: Mitra) -> None:
        self._close(now, run, [mitra], False)
        run.rejected[mitra] = None
        cause = None
        if not run.open:
            tally, anyone = self._count(run)
            cause = rules.after_rejection(run.search, tally, anyone_eligible=anyone)
        if cause is None:
            self._end_answered_wave(now, run)
        else:
            self._end(now, run, SearchOutcome.FAILED)

    def _count(self, run: Run) -> tuple[InvitationTally, bool]:
        """Return the tally of a search, and whether an eligible mitra is left; True if that does not matter."""
        tally = InvitationTally(asked=len(run.rung), rejected=len(run.rejected), open=len(run.open))
        decides = rules.depends_on_eligible(run.search, tally)
        return tally, not decides or any(self._may_ask(run, one) for one in self._free)

    def _close(self, now: dt.datetime, run: Run, mitras: Sequence[Mitra], accepted: bool | None) -> None:
        """Close open requests; `accepted` is the answer, None without one."""
        for mitra in mitras:
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
        following = rules.end_of_round(run.search, tally, self._settings.limits, anyone_eligible=anyone, now=now)
        if isinstance(following, CauseTag):
            self._end(now, run, SearchOutcome.FAILED)
            return
        self._close(now, run, list(run.open), None)
        run.answers.clear()
        run.search = rules.in_round(run.search, following)
        self._at(following.ends_at, self._end_round, run)
        self._ask(now, run)

    def _end(self, now: dt.datetime, run: Run, outcome: SearchOutcome) -> None:
        self._close(now, run, list(run.open), None)
        del self._running[run]
        run.outcome, run.ended_at = outcome, now
        run.answers.clear()
        run.rung.clear()
        run.rejected.clear()
        if outcome is not SearchOutcome.PAIRED and (again := self._people.retry(run)) is not None:
            delay, past = again
            self._at(now + delay, self._begin, past, run.attempt + 1 if past is run.past else 0)
