"""A replay equals the service: scripted people use the real flows over PostgreSQL, and a replay, search by search.

The history that is read has all of it (docs/simulation.md).
"""

import datetime as dt
import heapq
import itertools
import random
from collections.abc import Callable, Coroutine
from typing import Any

import attrs
import pytest

from core.base import ids
from core.base.actor import Actor
from core.base.errors import DomainError
from core.base.languages import DEFAULT
from core.desk import operator_work
from core.desk.simulations import simulate
from core.desk.simulations.simulate import ForecastFigure
from core.pairing import advance, answer, cancel, presence, start
from core.pairing.simulation.forecast import forecast
from core.pairing.simulation.history import Answers, PastSearch, Shift, answered, read_history
from core.pairing.simulation.replay import Mitra, Replay, Run
from core.pairing.simulation.rules import DAY, WEEK, Change
from core.sessions import end
from tests.clock import HandClock
from tests.flows.conftest import Harness, rows
from tests.flows.made_up_history import store
from tests.unit.made_up_worlds import SINCE, VALUES, World, plan

DUE = "SELECT min(due_at) FROM timed_work WHERE kind IN ('round', 'wave')"
NEW = """SELECT id, session_id::text, mitra_id::text, active_session_count AS load FROM chat_request_notifications
WHERE notified_at = $1 AND response IS NULL ORDER BY id"""
RESULTS = """SELECT s.id::text, s.status, s.mitra_id::text, s.paired_at - s.created_at AS wait,
  (SELECT count(*)::int FROM chat_request_notifications AS n WHERE n.session_id = s.id) AS rings
FROM chat_sessions AS s ORDER BY s.created_at"""
Result = tuple[str, str | None, dt.timedelta | None, int]


class Script:
    """People whose answers follow from what they are asked, as whole microseconds that hardly ever coincide."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def _draws(self, *what: object) -> random.Random:
        return random.Random(f"{self.seed} {what}")

    def reaction(self, number: int, mitra_id: str, load: int, before: int) -> tuple[dt.timedelta, bool] | None:
        draws = self._draws(number, mitra_id, load, before)
        if draws.random() < 0.3:
            return None
        return dt.timedelta(microseconds=draws.randrange(500_000, 40_000_000)), draws.random() < 0.45

    def answer(self, run: Run, mitra: Mitra, before: int) -> tuple[dt.timedelta, bool] | None:
        return self.reaction(run.past.number, mitra.name, mitra.load, before)

    def is_guess(self, load: int, before: int) -> bool:
        return False

    def patience(self, run: Run) -> dt.timedelta | None:
        return self.leaves(run.past.number)

    def leaves(self, number: int) -> dt.timedelta | None:
        draws = self._draws(number, "leaves")
        return dt.timedelta(microseconds=draws.randrange(10**6, 9 * 10**7)) if draws.random() < 0.15 else None

    def retry(self, run: Run) -> None:
        return None

    def hold(self, past: PastSearch, attempt: int) -> dt.timedelta:
        return dt.timedelta(microseconds=self._draws(past.number, "hold").randrange(20_000_000, 400_000_000))


class Life:
    """The service, used by scripted people on a clock that jumps to what happens next."""

    def __init__(self, harness: Harness, script: Script) -> None:
        self.harness, self.runtime, self.script = harness, harness.runtime, script
        self.clock = HandClock.at(2026, 11, 2)
        self.runtime.clock = self.clock
        self.events: list[tuple[dt.datetime, int, Callable[[], Coroutine[Any, Any, None]]]] = []
        self.numbers = itertools.count()
        self.mitras: dict[str, Actor] = {}
        self.searches: dict[str, PastSearch] = {}
        self.payments: dict[str, tuple[Actor, str]] = {}
        self.rung: dict[tuple[str, str], int] = {}
        self.known: set[object] = set()

    def at(self, moment: dt.datetime, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        heapq.heappush(self.events, (moment, next(self.numbers), act))

    async def live(self) -> None:
        while (due := await self.runtime.db.fetchval(DUE)) is not None or self.events:
            if due is not None and (not self.events or due < self.events[0][0]):
                self.set(due)
                await advance.end_rounds(self.runtime)
                await advance.end_waves(self.runtime)
            else:
                moment, _, act = heapq.heappop(self.events)
                self.set(moment)
                await act()
            await self._hear()

    def set(self, moment: dt.datetime) -> None:
        self.clock.advance((moment - self.clock.now()).total_seconds())

    async def _hear(self) -> None:
        """Let the mitras who were asked now react later."""
        for row in await self.runtime.db.fetch(NEW, self.clock.now()):
            if row["id"] in self.known:
                continue
            self.known.add(row["id"])
            key = row["session_id"], row["mitra_id"]
            before = self.rung.get(key, 0)
            self.rung[key] = before + 1
            reaction = self.script.reaction(self.searches[key[0]].number, key[1], row["load"], before)
            if reaction is not None:
                delay, accepts = reaction
                self.at(self.clock.now() + delay, lambda k=key, n=before, a=accepts: self.react(*k, n, accepts=a))

    async def react(self, session_id: str, mitra_id: str, before: int, *, accepts: bool) -> None:
        if self.rung[session_id, mitra_id] != before + 1:
            return  # the search has asked again
        use_case = answer.accept if accepts else answer.reject
        try:
            await use_case(self.runtime, self.mitras[mitra_id], session_id=session_id)
        except DomainError:
            return
        if accepts:
            hold = self.script.hold(self.searches[session_id], 0)
            self.at(self.clock.now() + hold, lambda: self.finish(session_id, mitra_id))

    async def finish(self, session_id: str, mitra_id: str) -> None:
        await end.end(self.runtime, self.payments[session_id][0], session_id=session_id)
        await advance.invite_available(self.runtime, mitra_ids=[mitra_id])

    async def begin(self, past: PastSearch) -> None:
        customer = await self.harness.customer()
        request_id = await self.harness.paid(customer)
        await start.start(self.runtime, payment_request_id=request_id)
        session = await self.harness.session_of(request_id)
        self.searches[session.id], self.payments[session.id] = past, (customer, request_id)
        leaves = self.script.leaves(past.number)
        if leaves is not None:
            self.at(self.clock.now() + leaves, lambda: self.leave(session.id))

    async def leave(self, session_id: str) -> None:
        customer, request_id = self.payments[session_id]
        try:
            await cancel.cancel(self.runtime, customer, payment_request_id=request_id)
        except DomainError:
            return

    async def shift(self, mitra_id: str, *, is_online: bool) -> None:
        if not is_online:
            await presence.go_offline(self.runtime, mitra_id=mitra_id)
            return
        await presence.go_online(self.runtime, self.mitras[mitra_id])
        await advance.invite_available(self.runtime, mitra_ids=[mitra_id])


def made(seed: int, begin: dt.datetime, searches: int, mitras: list[str]) -> tuple[list[PastSearch], list[Shift]]:
    """Return searches and shifts at odd microseconds."""
    draws, at, past = random.Random(seed), begin, []
    for number in range(searches):
        at += dt.timedelta(microseconds=draws.randrange(1, 40_000_000))
        past.append(PastSearch(number=number, customer="", began_at=at, ended_at=at))
    shifts: list[Shift] = []
    for number, mitra in enumerate(mitras):
        moment = begin + dt.timedelta(microseconds=number + 1)
        is_online = True
        while moment < at:
            shifts.append((moment, mitra, is_online))
            moment += dt.timedelta(microseconds=draws.randrange(10**8, 15 * 10**8 if is_online else 3 * 10**8))
            is_online = not is_online
    return past, sorted(shifts)


def replayed(runs: list[Run]) -> list[Result]:
    """Return the results of a replay."""
    return [
        (
            "closing" if run.outcome == "paired" else str(run.outcome),
            run.mitra,
            None if run.mitra is None else run.ended_at - run.began_at,
            run.rings,
        )
        for run in runs
    ]


def counts(some: Answers) -> dict[Any, list[float]]:
    """Return how many requests ended, by kind, mitra and response, in each span."""
    return {
        (kind, mitra, what): found
        for kind, mitras in some.items()
        for mitra, seen in mitras.items()
        for what, found in seen.counts.items()
    }


SETTINGS = {
    "all at once": {},
    "waves": {"blast_size": 2, "blast_wave_seconds": 15},
    "single mitras, one chat each": {"blast_size": 1, "blast_wave_seconds": 7, "max_customers_per_mitra": 1},
    "short rounds": {"pairing_blast_timeout_seconds": 20, "searching_timeout_minutes": 1, "max_customers_per_mitra": 2},
}


def compare(harness: Harness, searches: int, values: dict[str, int], seed: int) -> None:
    async def play() -> None:
        script, values_ = Script(seed), {**VALUES, **values}
        life = Life(harness, script)
        begin = life.clock.now()
        actors = sorted([await harness.mitra() for _ in range(6)], key=lambda one: one.user_id)
        life.mitras = {one.user_id: one for one in actors}
        names = list(life.mitras)
        past, shifts = made(seed, begin, searches, names)
        for one in past:
            life.at(one.began_at, lambda one=one: life.begin(one))
        for at, mitra, is_online in shifts:
            life.at(at, lambda mitra=mitra, is_online=is_online: life.shift(mitra, is_online=is_online))
        with rows(harness.runtime, require_mitra_ping=False, early_end_customer_enabled=True, **values_):
            await life.live()
        until = life.clock.now() + dt.timedelta(hours=1)
        replay = Replay(plan(past, shifts, values_, since=begin, until=until), script)
        found: list[Result] = [tuple(row)[1:] for row in await harness.runtime.db.fetch(RESULTS)]
        assert replayed(replay.runs) == found

        history = await read_history(harness.runtime.reports, harness.runtime.config, begin, until)
        assert [(one.began_at, one.outcome, one.ended_at) for one in history.searches] == [
            (run.began_at, run.outcome, run.ended_at) for run in replay.runs
        ]
        assert history.mitras == names
        assert sum(history.rung) == sum(run.rings for run in replay.runs)
        found_counts = counts(history.answers)
        assert sum(map(sum, found_counts.values())) == sum(history.rung)
        accepted = sum(sum(some) for (*_, what), some in found_counts.items() if what == "ACCEPTED")
        assert accepted == sum(run.outcome == "paired" for run in replay.runs)
        assert history.earlier == {}
        assert history.shifts == shifts

    harness.run(play())


def test_replay_of_scripted_people_equals_the_service(clean_harness: Harness) -> None:
    clock = clean_harness.runtime.clock
    try:
        compare(clean_harness, 25, SETTINGS["waves"], seed=1)
    finally:
        clean_harness.runtime.clock = clock


def test_history_of_a_world_is_read_as_it_was(clean_harness: Harness) -> None:
    world = World(0, a_day=40.0, mitras=8)
    expected = world.history()

    async def play() -> None:
        async with clean_harness.runtime.db.pool.acquire() as connection:
            await store(connection, world)
        found = await read_history(
            clean_harness.runtime.reports, clean_harness.runtime.config, world.since, world.until
        )
        assert found.mitras == expected.mitras
        assert found.rung == expected.rung
        for some, those in ((found.answers, expected.answers), (found.earlier, expected.earlier)):
            assert counts(some) == counts(those)
            assert answered(some[0, 0]) > 0
            for kind, mitras in those.items():
                assert {mitra: seen.open_s for mitra, seen in some[kind].items()} == {
                    mitra: pytest.approx(seen.open_s) for mitra, seen in mitras.items()
                }
        for one, other in zip(found.searches, expected.searches, strict=True):
            assert (one.began_at, one.ended_at, one.freed_at, one.outcome, one.mitra, one.minutes) == (
                other.began_at, other.ended_at, other.freed_at, other.outcome, other.mitra, other.minutes
            )  # fmt: skip
            assert (one.follows and one.follows.number) == (other.follows and other.follows.number)
        begin = world.since - DAY
        assert [one for one in found.shifts if one[0] >= begin] == [
            one for one in world.shifts if begin <= one[0] < world.until
        ]
        online = {mitra for at, mitra, _ in found.shifts if at < begin}
        assert online == {
            mitra
            for mitra in world.names
            if [is_online for at, name, is_online in world.shifts if name == mitra and at < begin][-1:] == [True]
        }

    clean_harness.run(play())


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("values", SETTINGS.values(), ids=list(SETTINGS))
def test_replay_equals_the_service_over_hundreds_of_searches(clean_harness: Harness, values: dict[str, int]) -> None:
    clock = clean_harness.runtime.clock
    try:
        compare(clean_harness, 250, values, seed=2)
    finally:
        clean_harness.runtime.clock = clock


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("eager", [False, True], ids=["as before", "changed by the setting"])
def test_week_after_a_change_shows_whether_mitras_changed_because_of_it(clean_harness: Harness, eager: bool) -> None:
    """The forecast is saved with the change. Eager mitras answer in half the time in a wave, and there were none
    before the change."""
    harness, runtime = clean_harness, clean_harness.runtime
    values = {"blast_size": 2, "blast_wave_seconds": 10}
    world, change, changed_at = World(1, days=21, eager=eager), Change(settings=values), SINCE + 14 * DAY
    before = {name: runtime.config.number(name) for name in values}

    async def play() -> dict[str, ForecastFigure]:
        await harness.empty("simulations")
        async with runtime.db.pool.acquire() as connection:
            await store(connection, world, world.live_with_change(change, changed_at))
        runtime.clock = clock = HandClock(changed_at)
        history = await read_history(runtime.reports, world.plan().in_force[0][1], SINCE, changed_at)
        simulation_id, operator = ids.new_id(), await harness.operator()
        async with runtime.transaction() as tx:
            assert await tx.fetchval(simulate.SQL["add"], simulation_id, operator.user_id, tx.now, 14, values, [])
        assert await simulate.claim(runtime) is not None
        await simulate.finish(runtime, simulation_id, result=attrs.asdict(forecast(history, change)))
        await operator_work.set_config(runtime, operator, dict(values), simulation_id=simulation_id)
        clock.advance(WEEK.total_seconds() - 1)
        (newest, *_) = (await simulate.changes(runtime, DEFAULT, since=None, until=None)).items
        assert newest.simulation_id == simulation_id
        assert {one.happened for one in newest.forecast or ()} == {None}
        clock.advance(1)
        (newest, *_) = (await simulate.changes(runtime, DEFAULT, since=None, until=None)).items
        await operator_work.set_config(runtime, operator, dict(before))
        return {one.figure: one for one in newest.forecast or ()}

    clock = runtime.clock
    try:
        found = harness.run(play())
    finally:
        runtime.clock = clock
    wait = found["wait_p50"]
    assert wait.happened is not None
    if eager:
        assert wait.happened < wait.low
    else:
        assert wait.low <= wait.happened <= wait.high
