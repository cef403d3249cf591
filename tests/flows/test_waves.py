"""Waves of a blast and blasts of thousands, step by step: who is asked when, and what a race or a death leaves
(docs/product.md#waves)."""

import asyncio
import contextlib
import datetime as dt
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from core.base import ids
from core.base.actor import Actor, UserType
from core.base.errors import DomainError
from core.pairing import advance as pairing_advance
from core.pairing import answer as pairing_answer
from core.pairing import cancel as pairing_cancel
from core.pairing import presence
from core.pairing import start as pairing_start
from core.pairing.eligible import LONGEST_WAITING, SOME_ELIGIBLE
from core.pairing.rules import INVITED_AT_ONCE
from core.sessions.states import SessionStatus
from core.sessions.store import Session
from tests.flows.conftest import Harness

WAVE_OVER = "UPDATE chat_sessions SET wave_ends_at = $1 WHERE status = 'searching' AND wave_ends_at > $1"
ROUND_OVER = (
    "UPDATE chat_sessions SET round_ends_at = $1, wave_ends_at = least(wave_ends_at, $1) WHERE status = 'searching'"
)
ASKED = """SELECT mitra_id::text, round_number, wave_number, notified_at, answer_by, response
FROM chat_request_notifications WHERE session_id = $1 ORDER BY id"""
CROWD = """WITH made AS (
  INSERT INTO mitras (id, phone, display_name, is_active)
  SELECT i, '+6281' || lpad(n::text, 9, '0'), 'Ayu', true FROM unnest($1::uuid[]) WITH ORDINALITY AS x (i, n)
), signed AS (
  INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, expires_at)
  SELECT i, 'mitra', i, i::text, now() + interval '30 days' FROM unnest($1::uuid[]) AS i
)
INSERT INTO mitra_online_status (id, mitra_id, is_online, last_online_at, last_heartbeat_at)
SELECT i, i, true, $2::timestamptz + n * interval '1 ms', $2 FROM unnest($1::uuid[]) WITH ORDINALITY AS x (i, n)"""
TWICE = """SELECT count(*)::int FROM (
  SELECT 1 FROM chat_request_notifications GROUP BY session_id, mitra_id, round_number HAVING count(*) > 1
) AS x"""
READ = """SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_user_tables
WHERE relname LIKE 'chat\\_request\\_notifications%'"""
OPEN = "SELECT count(*)::int FROM chat_request_notifications WHERE session_id = $1 AND response IS NULL"


@contextlib.contextmanager
def rows(harness: Harness, **values: int) -> Iterator[None]:
    """Set configuration rows for a while."""
    before = harness.runtime.config.values
    harness.runtime.config.values = {**before, **values}
    try:
        yield
    finally:
        harness.runtime.config.values = before


@pytest.fixture
def waves(clean_harness: Harness) -> Iterator[Harness]:
    """Yield a service with waves of two mitras."""
    with rows(clean_harness, blast_size=2, blast_wave_seconds=10):
        yield clean_harness


async def crowd(harness: Harness, count: int) -> list[Actor]:
    """Create mitras who came online one after another."""
    mitra_ids = [ids.new_id() for _ in range(count)]
    await harness.runtime.db.fetch(CROWD, mitra_ids, harness.runtime.now() - dt.timedelta(seconds=10))
    return [
        Actor(user_type=UserType.MITRA, user_id=one, auth_session_id=ids.new_id(), expires_at=2**40, ids=(one,))
        for one in mitra_ids
    ]


async def begin(harness: Harness) -> Session:
    """Create a running blast; return its session."""
    request_id = await harness.paid(await harness.customer())
    await pairing_start.start(harness.runtime, payment_request_id=request_id)
    return await harness.session_of(request_id)


async def now(harness: Harness, search: Session) -> Session:
    """Return the current state of a search."""
    assert search.payment_request_id is not None
    return await harness.session_of(search.payment_request_id)


async def asked(harness: Harness, search: Session) -> list[list[str]]:
    """Return the mitras of each wave."""
    found: dict[int, list[str]] = {}
    for row in await harness.runtime.db.fetch(ASKED, search.id):
        found.setdefault(row["wave_number"], []).append(row["mitra_id"])
    return [sorted(found[number]) for number in sorted(found)]


async def next_wave(harness: Harness) -> None:
    """Let the running waves end now."""
    await harness.runtime.db.fetch(WAVE_OVER, harness.runtime.now())
    await pairing_advance.end_waves(harness.runtime)


async def next_round(harness: Harness) -> None:
    """Let the running rounds end now."""
    await harness.runtime.db.fetch(ROUND_OVER, harness.runtime.now())
    await pairing_advance.end_rounds(harness.runtime)


def who(*mitras: Actor) -> list[str]:
    return sorted(mitra.user_id for mitra in mitras)


async def outcome(work: Any) -> str:
    """Return "ok", or the code of the refusal."""
    try:
        await work
    except DomainError as error:
        return error.code
    return "ok"


async def at_once(*work: Any) -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(outcome(one)) for one in work]
    return [task.result() for task in tasks]


# -- the order of waves


def test_waves_ask_the_longest_waiting_first_and_nobody_twice(waves: Harness) -> None:
    async def play() -> None:
        a, b, c, d, e = await crowd(waves, 5)
        search = await begin(waves)
        assert await asked(waves, search) == [who(a, b)]
        assert search.wave_ends_at is not None
        assert search.wave_ends_at - search.created_at == dt.timedelta(seconds=10)
        await pairing_advance.invite_available(waves.runtime)  # the wave is full
        await pairing_advance.end_waves(waves.runtime)  # and not over
        assert await asked(waves, search) == [who(a, b)]
        await next_wave(waves)
        await next_wave(waves)
        assert await asked(waves, search) == [who(a, b), who(c, d), who(e)]
        await next_wave(waves)
        assert await asked(waves, search) == [who(a, b), who(c, d), who(e)]
        assert (await now(waves, search)).wave_ends_at is None
        answer_by = {row["answer_by"] for row in await waves.runtime.db.fetch(ASKED, search.id)}
        assert answer_by == {search.round_ends_at}

    waves.run(play())


def test_mitra_who_accepted_lately_waits_behind_those_who_did_not(waves: Harness) -> None:
    async def play() -> None:
        a, b, c = await crowd(waves, 3)
        first = await begin(waves)
        await pairing_answer.accept(waves.runtime, a, session_id=first.id)  # has room for more
        search = await begin(waves)
        assert await asked(waves, search) == [who(b, c)]
        await next_wave(waves)
        assert await asked(waves, search) == [who(b, c), who(a)]

    waves.run(play())


def test_mitra_whose_last_acceptance_is_of_an_older_search_waits_since_then(waves: Harness) -> None:
    async def play() -> None:
        a, b, c = await crowd(waves, 3)
        first, second = await begin(waves), await begin(waves)
        await pairing_answer.accept(waves.runtime, a, session_id=second.id)
        third = await begin(waves)
        assert await asked(waves, third) == [who(b, c)]
        await pairing_answer.accept(waves.runtime, c, session_id=third.id)
        await pairing_answer.accept(waves.runtime, a, session_id=first.id)
        assert await asked(waves, await begin(waves)) == [who(b, c)]

    waves.run(play())


def test_next_wave_follows_at_once_when_all_of_a_wave_rejected(waves: Harness) -> None:
    async def play() -> None:
        a, b, c, d, e = await crowd(waves, 5)
        search = await begin(waves)
        await next_wave(waves)
        await pairing_answer.reject(waves.runtime, c, session_id=search.id)
        assert await pairing_advance.end_waves(waves.runtime) == 0
        await pairing_answer.reject(waves.runtime, d, session_id=search.id)  # a and b have not answered
        assert await pairing_advance.end_waves(waves.runtime) == 1
        assert await asked(waves, search) == [who(a, b), who(c, d), who(e)]

    waves.run(play())


def test_next_wave_follows_at_once_when_the_last_of_a_wave_goes_offline(waves: Harness) -> None:
    async def play() -> None:
        a, b, c = await crowd(waves, 3)
        search = await begin(waves)
        await pairing_answer.reject(waves.runtime, a, session_id=search.id)
        await presence.go_offline(waves.runtime, mitra_id=b.user_id)
        assert await pairing_advance.end_waves(waves.runtime) == 1
        assert await asked(waves, search) == [who(a, b), who(c)]

    waves.run(play())


def test_newcomer_waits_behind_the_queue_and_fills_a_wave_that_has_room(waves: Harness) -> None:
    async def play() -> None:
        a, b, c = await crowd(waves, 3)
        search = await begin(waves)
        newcomer = await waves.mitra()
        await presence.go_online(waves.runtime, newcomer)
        await pairing_advance.invite_available(waves.runtime, mitra_ids=[newcomer.user_id])
        assert await asked(waves, search) == [who(a, b)]
        await presence.go_offline(waves.runtime, mitra_id=newcomer.user_id)
        await next_wave(waves)
        assert await asked(waves, search) == [who(a, b), who(c)]
        await presence.go_online(waves.runtime, newcomer)
        await pairing_advance.invite_available(waves.runtime, mitra_ids=[newcomer.user_id])
        assert await asked(waves, search) == [who(a, b), who(c, newcomer)]

    waves.run(play())


def test_newcomer_is_asked_at_once_when_no_wave_is_running(waves: Harness) -> None:
    async def play() -> None:
        a, b = await crowd(waves, 2)
        search = await begin(waves)
        await next_wave(waves)
        newcomer = await waves.mitra()
        await presence.go_online(waves.runtime, newcomer)
        await pairing_advance.invite_available(waves.runtime, mitra_ids=[newcomer.user_id])
        assert await asked(waves, search) == [who(a, b), who(newcomer)]
        assert (await now(waves, search)).wave_ends_at is not None

    waves.run(play())


def test_mitra_who_was_offline_during_the_waves_returns_to_the_end_of_the_queue(waves: Harness) -> None:
    async def play() -> None:
        a, b, c, d, e = await crowd(waves, 5)
        search = await begin(waves)
        await presence.go_offline(waves.runtime, mitra_id=a.user_id)
        await presence.go_online(waves.runtime, a)
        await next_wave(waves)
        await next_wave(waves)
        assert await asked(waves, search) == [who(a, b), who(c, d), who(a, e)]

    waves.run(play())


def test_next_round_first_asks_mitras_whom_the_search_has_not_asked(waves: Harness) -> None:
    async def play() -> None:
        a, b, c, d, e = await crowd(waves, 5)
        search = await begin(waves)
        await next_round(waves)
        await next_round(waves)
        await next_round(waves)
        assert await asked(waves, search) == [who(a, b), who(c, d), who(a, e), who(b, c)]
        found = await now(waves, search)
        open_now = [row for row in await waves.runtime.db.fetch(ASKED, search.id) if row["response"] is None]
        assert {row["answer_by"] for row in open_now} == {found.round_ends_at}
        assert (found.round_number, found.wave_number) == (4, 4)

    waves.run(play())


def test_search_fails_only_when_the_mitras_of_all_waves_have_rejected(waves: Harness) -> None:
    async def play() -> None:
        mitras = await crowd(waves, 3)
        search = await begin(waves)
        for mitra in mitras:
            assert (await now(waves, search)).status is SessionStatus.SEARCHING
            await pairing_answer.reject(waves.runtime, mitra, session_id=search.id)
            await pairing_advance.end_waves(waves.runtime)
        assert (await now(waves, search)).status is SessionStatus.FAILED

    waves.run(play())


def test_changed_rows_apply_from_the_next_invitation_on(waves: Harness) -> None:
    async def play() -> None:
        mitras = await crowd(waves, 9)
        search = await begin(waves)
        with rows(waves, blast_size=3, blast_wave_seconds=20):
            await pairing_advance.invite_available(waves.runtime)
            assert await asked(waves, search) == [who(*mitras[:3])]
            await next_wave(waves)
            found = await now(waves, search)
            assert found.wave_ends_at is not None
            assert found.wave_ends_at > waves.runtime.now() + dt.timedelta(seconds=15)
        with rows(waves, blast_size=1):
            await pairing_advance.invite_available(waves.runtime)
            assert await asked(waves, search) == [who(*mitras[:3]), who(*mitras[3:6])]
        with rows(waves, blast_size=0):
            await pairing_advance.invite_available(waves.runtime)
            assert sorted(one for wave in await asked(waves, search) for one in wave) == who(*mitras)
            assert (await now(waves, search)).wave_ends_at is None

    waves.run(play())


# -- races


def test_two_jobs_processes_begin_one_wave(waves: Harness) -> None:
    async def play() -> None:
        mitras = await crowd(waves, 8)
        search = await begin(waves)
        for number in range(1, 4):
            await waves.runtime.db.fetch(WAVE_OVER, waves.runtime.now())
            work = [pairing_advance.end_waves(waves.runtime), pairing_advance.invite_available(waves.runtime)]
            await at_once(*work, pairing_advance.end_waves(waves.runtime))
            expected = [who(*mitras[2 * n : 2 * n + 2]) for n in range(number + 1)]
            assert await asked(waves, search) == expected

    waves.run(play())


@pytest.mark.parametrize("turn", range(4))
def test_accept_racing_the_next_wave_leaves_no_open_invitation(waves: Harness, turn: int) -> None:
    async def play() -> None:
        a, *_ = await crowd(waves, 6)
        search = await begin(waves)
        await waves.runtime.db.fetch(WAVE_OVER, waves.runtime.now())
        work = [
            pairing_answer.accept(waves.runtime, a, session_id=search.id),
            pairing_advance.end_waves(waves.runtime),
            pairing_advance.invite_available(waves.runtime),
        ]
        assert await at_once(*work[turn % 3 :], *work[: turn % 3]) == ["ok"] * 3
        await pairing_advance.invite_available(waves.runtime)
        await pairing_advance.end_waves(waves.runtime)
        assert await waves.runtime.db.fetchval(OPEN, search.id) == 0
        assert (await now(waves, search)).status is SessionStatus.ACTIVE
        assert len(await asked(waves, search)) <= 2

    waves.run(play())


@pytest.mark.parametrize("turn", range(4))
def test_cancel_racing_the_next_wave_leaves_no_open_invitation(waves: Harness, turn: int) -> None:
    async def play() -> None:
        await crowd(waves, 6)
        customer = await waves.customer()
        request_id = await waves.paid(customer)
        await pairing_start.start(waves.runtime, payment_request_id=request_id)
        search = await waves.session_of(request_id)
        await waves.runtime.db.fetch(WAVE_OVER, waves.runtime.now())
        work = [
            pairing_cancel.cancel(waves.runtime, customer, payment_request_id=request_id),
            pairing_advance.end_waves(waves.runtime),
        ]
        assert await at_once(*(work if turn % 2 else reversed(work))) == ["ok"] * 2
        await pairing_advance.end_waves(waves.runtime)
        await pairing_advance.invite_available(waves.runtime)
        assert await waves.runtime.db.fetchval(OPEN, search.id) == 0
        assert (await now(waves, search)).status is SessionStatus.CANCELLED

    waves.run(play())


@pytest.mark.parametrize("turn", range(4))
def test_last_rejection_racing_the_end_of_the_wave_begins_one_wave(waves: Harness, turn: int) -> None:
    async def play() -> None:
        a, b, c, d, *_ = await crowd(waves, 6)
        search = await begin(waves)
        await pairing_answer.reject(waves.runtime, a, session_id=search.id)
        await waves.runtime.db.fetch(WAVE_OVER, waves.runtime.now())
        work = [
            pairing_answer.reject(waves.runtime, b, session_id=search.id),
            pairing_advance.end_waves(waves.runtime),
        ]
        assert await at_once(*(work if turn % 2 else reversed(work))) == ["ok"] * 2
        await pairing_advance.end_waves(waves.runtime)
        assert await asked(waves, search) == [who(a, b), who(c, d)]

    waves.run(play())


@pytest.mark.parametrize("seed", range(6))
def test_random_steps_ask_in_order_and_within_the_size_of_a_wave(waves: Harness, seed: int) -> None:
    dice = random.Random(seed)

    async def play() -> None:
        mitras = await crowd(waves, 12)
        search = await begin(waves)
        for _ in range(40):
            mitra = dice.choice(mitras)
            step = dice.randrange(7)
            if step == 0:
                await next_wave(waves)
            elif step == 1 and dice.random() < 0.3:
                await next_round(waves)
            elif step == 2:
                await outcome(pairing_answer.reject(waves.runtime, mitra, session_id=search.id))
            elif step == 3:
                await presence.go_offline(waves.runtime, mitra_id=mitra.user_id)
            elif step == 4:
                await presence.go_online(waves.runtime, mitra)
                await pairing_advance.invite_available(waves.runtime, mitra_ids=[mitra.user_id])
            else:
                await pairing_advance.invite_available(waves.runtime)
                await pairing_advance.end_waves(waves.runtime)
            if (await now(waves, search)).status is not SessionStatus.SEARCHING:
                break
            found = await asked(waves, search)
            assert all(len(wave) <= 2 and len(set(wave)) == len(wave) for wave in found)
            assert [len(wave) for wave in found].count(0) == 0
        made = await waves.runtime.db.fetch(ASKED, search.id)
        numbers = [row["wave_number"] for row in made]
        assert numbers == sorted(numbers)
        for one in mitras:
            mine = [row for row in made if row["mitra_id"] == one.user_id]
            refused = [row["notified_at"] for row in mine if row["response"] == "REJECTED"]
            assert all(row["notified_at"] <= refused[0] for row in mine if refused)

    waves.run(play())


# -- thousands


@pytest.mark.parametrize("size", [0, 4_400])
@pytest.mark.slow
def test_blast_of_thousands_goes_on_exactly_after_its_process_dies(clean_harness: Harness, size: int) -> None:
    """The death is real as far as the database sees: nothing follows the first commit, until the jobs process looks."""

    async def play() -> None:
        runtime = clean_harness.runtime
        mitras = await crowd(clean_harness, 4_500)
        search = await begin(clean_harness)
        assert await runtime.db.fetchval(OPEN, search.id) == 1_000
        for count in (2_000, 3_000, 4_000, size or 4_500, size or 4_500):
            await pairing_advance.invite_available(runtime)
            assert await runtime.db.fetchval(OPEN, search.id) == count
        assert await runtime.db.fetchval(TWICE) == 0
        made = await runtime.db.fetch(ASKED, search.id)
        assert {row["mitra_id"] for row in made} == {one.user_id for one in mitras[: size or 4_500]}
        at_a_time = [sum(row["notified_at"] == at for row in made) for at in {row["notified_at"] for row in made}]
        assert max(at_a_time) == 1_000

    with rows(clean_harness, blast_size=size):
        clean_harness.run(play())


def test_acceptance_in_the_middle_of_a_blast_ends_it(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime = clean_harness.runtime
        first, *_ = await crowd(clean_harness, 2_500)
        search = await begin(clean_harness)
        mitra = (await runtime.db.fetch(ASKED, search.id))[0]["mitra_id"]
        actor = Actor(user_type=first.user_type, user_id=mitra, auth_session_id="", expires_at=2**40, ids=(mitra,))
        accepted, went_on = await at_once(
            pairing_answer.accept(runtime, actor, session_id=search.id),
            pairing_advance.go_on(runtime, session_id=search.id),
        )
        await pairing_advance.go_on(runtime, session_id=search.id)
        assert (accepted, went_on) == ("ok", "ok")
        assert await runtime.db.fetchval(OPEN, search.id) == 0

    clean_harness.run(play())


@pytest.mark.parametrize("sql", [SOME_ELIGIBLE, LONGEST_WAITING], ids=["everyone", "waves"])
def test_statement_for_the_next_mitras_compares_none_with_all_invitations(clean_harness: Harness, sql: str) -> None:
    """Such a plan takes seconds. The planner chose one for some statements, with or without statistics of the search."""

    async def play() -> None:
        await crowd(clean_harness, 3_000)
        search = await begin(clean_harness)
        args = (search.id, clean_harness.runtime.now(), False, 45.0, 3, None, INVITED_AT_ONCE)
        for statistics in ("SELECT 1", "ANALYZE chat_request_notifications"):
            await clean_harness.runtime.db.fetch(statistics)
            rows = await clean_harness.runtime.db.fetch(f"EXPLAIN (ANALYZE, TIMING off) {sql}", *args)
            plan = "\n".join(row[0] for row in rows)
            assert "hashed SubPlan" in plan
            assert "Anti Join" not in plan
            assert all(int(n) < 100_000 for n in re.findall(r"Rows Removed by Join Filter: (\d+)", plan))

    clean_harness.run(play())


async def rows_read(harness: Harness) -> int:
    """Return how many invitations all statements so far have read."""
    pool = harness.runtime.db.pool
    async with contextlib.AsyncExitStack() as held:
        for _ in range(pool.get_size()):
            connection = await held.enter_async_context(pool.acquire())
            await connection.execute("SELECT pg_stat_force_next_flush()")
    return await harness.runtime.db.fetchval(READ)


def test_rejection_of_a_large_blast_reads_few_invitations(clean_harness: Harness) -> None:
    """Hundreds who reject at once hold the session's lock in turn, and an acceptance waits for all of them."""

    async def few() -> None:
        mitras = await crowd(clean_harness, 500)
        search = await begin(clean_harness)
        await clean_harness.runtime.db.fetch("ANALYZE chat_request_notifications")
        before = await rows_read(clean_harness)
        for mitra in mitras[:10]:
            await pairing_answer.reject(clean_harness.runtime, mitra, session_id=search.id)
        assert await rows_read(clean_harness) - before < 500

    clean_harness.run(few())
