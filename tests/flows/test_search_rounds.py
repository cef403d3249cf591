"""The rounds of searches: the mitras that each could ask, and how its invitations ended (docs/fairness.md)."""

import contextlib
import datetime as dt
import random
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.accounts.mitras.rules import AvailabilityPolicy
from core.base import id_ranges, ids
from core.base.actor import Actor
from core.base.field_types import Id, SessionId
from core.desk.timeline.entries import EndedRound, alike, of_last
from core.desk.timeline.timeline import timeline
from core.pairing import advance as pairing_advance
from core.pairing import answer as pairing_answer
from core.pairing import cancel as pairing_cancel
from core.pairing import fallback as pairing_fallback
from core.pairing import presence, round_records
from core.pairing import start as pairing_start
from core.pairing import store as pairing
from core.pairing.eligible import BEGIN_ROUNDS
from core.pairing.rules import Response
from core.sessions import transitions
from core.sessions.store import Session
from core.telemetry import metrics
from tests.flows.conftest import READER, WISH, Harness
from tests.flows.test_waves import at_once, begin, crowd, next_round, next_wave, now, outcome, rows, rows_read
from tests.tiers import examples

ROUNDS = "SELECT * FROM search_rounds WHERE session_id = $1 ORDER BY round_number"
FUNNEL = ("active", "online", "fresh", "with_room", "askable")
ENDS = ("asked", "accepted", "rejected", "unanswered", "closed")
ANSWERS = """SELECT round_number, count(*)::int AS asked,
  count(*) FILTER (WHERE response = 'ACCEPTED')::int AS accepted, count(*) FILTER (WHERE response = 'REJECTED')::int AS rejected,
  count(*) FILTER (WHERE response = 'IGNORED')::int AS unanswered,
  count(*) FILTER (WHERE response IN ('MISSED', 'CANCELLED'))::int AS closed
FROM chat_request_notifications WHERE session_id = $1 GROUP BY round_number"""
# Processes that can take heartbeats, so that silence is not excused.
ALIVE = """INSERT INTO service_processes (place, kind, since_at, alive_at, lost_at, given_up_at)
  SELECT 'steady-' || kind, kind, $1::timestamptz - interval '1 day', $1, $1 + interval '1 hour', $1 + interval '1 minute'
  FROM unnest(ARRAY['realtime', 'api']) AS k (kind)"""
REFUSED = """CREATE FUNCTION refused() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN RAISE 'refused'; END $$"""
POLICY = AvailabilityPolicy(require_ping=True, stale_after_seconds=45.0, capacity=1)


async def found(harness: Harness, search: Session, *fields: str) -> list[tuple[Any, ...]]:
    """Return these columns of each round of a search."""
    return [tuple(row[field] for field in fields) for row in await harness.runtime.db.fetch(ROUNDS, search.id)]


async def why(harness: Harness, search: Session) -> tuple[str | None, str | None]:
    """Return why there was no chat, in both languages."""
    assert search.payment_request_id is not None
    told = await timeline(harness.runtime, READER, search.payment_request_id)
    return told.why_no_chat, told.why_no_chat_in_indonesian


async def check_counts(harness: Harness, search: Session) -> None:
    """Check that the ended rounds equal the invitations of the database."""
    answers = {row["round_number"]: row for row in await harness.runtime.db.fetch(ANSWERS, search.id)}
    kept = await harness.runtime.db.fetch(ROUNDS, search.id)
    session = await now(harness, search)
    assert [row["round_number"] for row in kept] == list(range(1, session.round_number + 1))
    running = [row["round_number"] for row in kept if row["ended_at"] is None]
    assert running == ([session.round_number] if session.status == "searching" else [])
    for row in kept:
        if row["ended_at"] is not None:
            counted = answers.pop(row["round_number"], None)
            assert [row[name] for name in ENDS] == [counted[name] if counted else 0 for name in ENDS]
    assert set(answers) <= set(running)


def test_round_counts_whom_it_could_ask_and_each_answer(clean_harness: Harness) -> None:
    async def play() -> None:
        harness = clean_harness
        with rows(harness, max_customers_per_mitra=1):
            mitras = await crowd(harness, 6)
            offline, silent, full, *free = mitras
            await presence.go_offline(harness.runtime, mitra_id=offline.user_id)
            first = await begin(harness)
            await pairing_answer.accept(harness.runtime, full, session_id=first.id)
            await harness.runtime.db.fetch(
                "UPDATE mitra_online_status SET last_heartbeat_at = last_heartbeat_at - interval '1 hour' WHERE mitra_id = $1",
                silent.user_id,
            )
            await harness.runtime.db.fetch("DELETE FROM service_processes")
            await harness.runtime.db.fetch(ALIVE, harness.runtime.now())
            with rows(harness, require_mitra_ping=True):
                search = await begin(harness)
                assert await found(harness, search, *FUNNEL) == [(6, 5, 4, 3, 3)]
                await pairing_answer.reject(harness.runtime, free[0], session_id=search.id)
                await next_round(harness)
                assert await found(harness, search, *FUNNEL) == [(6, 5, 4, 3, 3), (6, 5, 4, 3, 2)]
                assert (await found(harness, search, *ENDS))[0] == (3, 0, 1, 2, 0)
                await pairing_answer.reject(harness.runtime, free[1], session_id=search.id)
                await presence.go_offline(harness.runtime, mitra_id=free[2].user_id)
                await harness.runtime.db.fetch(
                    "UPDATE chat_sessions SET search_ends_at = $1, round_ends_at = $1 WHERE status = 'searching'",
                    harness.runtime.now(),
                )
                await pairing_advance.end_rounds(harness.runtime)
                await check_counts(harness, search)
                en, indonesian = await why(harness, search)
                assert en == (
                    "The customer paid, but no mitra accepted before the search ended. Its last round, number 2, had "
                    "5 online: 1 without a heartbeat, 1 full, 1 had declined, 1 rejected, 1 did not answer."
                )
                assert indonesian is not None
                await harness.runtime.db.fetch("DELETE FROM service_processes")
                assert indonesian.endswith(
                    "5 daring: 1 tanpa detak, 1 penuh, 1 sudah menolak sebelumnya, 1 menolak, 1 tidak menjawab."
                )

    clean_harness.run(play())


def test_idle_rounds_are_counted_and_share_an_entry(clean_harness: Harness) -> None:
    async def play() -> None:
        searches = [await begin(clean_harness) for _ in range(3)]
        for _ in range(3):
            await next_round(clean_harness)
        for search in searches:
            assert await found(clean_harness, search, *FUNNEL, *ENDS) == [(0,) * 10] * 4
            await check_counts(clean_harness, search)
            assert search.payment_request_id is not None
            told = await timeline(clean_harness.runtime, READER, search.payment_request_id)
            assert [one.text for one in told.entries if one.kind == "round_ended"] == [
                "Each round from 1 to 3 had 0 online."
            ]

    clean_harness.run(play())


def test_search_from_before_rounds_were_stored_keeps_its_timeline(clean_harness: Harness) -> None:
    async def play() -> None:
        (mitra,) = await crowd(clean_harness, 1)
        search = await begin(clean_harness)
        await clean_harness.runtime.db.fetch("DELETE FROM search_rounds")
        await pairing_answer.reject(clean_harness.runtime, mitra, session_id=search.id)
        en, indonesian = await why(clean_harness, search)
        assert en == "The customer paid, but every invited mitra rejected the request."
        assert indonesian == "Pelanggan membayar, dan setiap mitra yang diminta menolak."

    clean_harness.run(play())


def test_losing_acceptances_keep_by_how_much_they_lost(clean_harness: Harness) -> None:
    async def play() -> None:
        mitras = await crowd(clean_harness, 8)
        search = await begin(clean_harness)
        late, *racing = mitras
        work = [pairing_answer.accept(clean_harness.runtime, mitra, session_id=search.id) for mitra in racing[:6]]
        assert sorted(await at_once(*work)) == ["REQUEST_TAKEN"] * 5 + ["ok"]
        await clean_harness.runtime.db.fetch("UPDATE chat_sessions SET paired_at = paired_at - interval '3 seconds'")
        for _ in range(2):  # the second one changes nothing
            assert (
                await outcome(pairing_answer.accept(clean_harness.runtime, late, session_id=search.id))
                == "REQUEST_TAKEN"
            )
            await clean_harness.runtime.db.fetch("UPDATE chat_sessions SET paired_at = paired_at - interval '1 hour'")
        kept = await clean_harness.runtime.db.fetch(
            "SELECT mitra_id::text, response, lost_by_ms FROM chat_request_notifications WHERE session_id = $1",
            search.id,
        )
        lost = {row["mitra_id"]: row["lost_by_ms"] for row in kept if row["lost_by_ms"] is not None}
        accepted = [row["mitra_id"] for row in kept if row["response"] == "ACCEPTED"]
        assert set(lost) == {one.user_id for one in (late, *racing[:6])} - set(accepted)  # racing[6] did not answer
        assert all(by >= 0 for by in lost.values())
        assert 3_000 <= lost[late.user_id] < 600_000
        await check_counts(clean_harness, search)

    clean_harness.run(play())


def test_acceptance_long_after_the_time_to_answer_is_no_loss(clean_harness: Harness) -> None:
    async def play() -> None:
        winner, late = await crowd(clean_harness, 2)
        search = await begin(clean_harness)
        await pairing_answer.accept(clean_harness.runtime, winner, session_id=search.id)
        await clean_harness.runtime.db.fetch(
            "UPDATE chat_request_notifications SET answer_by = $1", clean_harness.runtime.now()
        )
        assert (
            await outcome(pairing_answer.accept(clean_harness.runtime, late, session_id=search.id)) == "REQUEST_TAKEN"
        )
        assert await clean_harness.runtime.db.fetchval("SELECT count(lost_by_ms) FROM chat_request_notifications") == 0

    clean_harness.run(play())


STEPS = st.lists(
    st.sampled_from(["reject", "reject", "offline", "online", "newcomer", "wave", "round", "accept", "cancel"]),
    max_size=12,
)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, size=st.sampled_from([0, 1, 2]), count=st.integers(0, 4), seed=st.integers(0, 999))
def test_counts_equal_the_invitations_after_any_sequence_of_answers(
    harness: Harness, steps: list[str], size: int, count: int, seed: int
) -> None:
    async def play() -> None:
        await harness.clear()
        chance = random.Random(seed)
        with rows(harness, blast_size=size, blast_wave_seconds=10):
            mitras = await crowd(harness, count)
            search = await begin(harness)
            for step in steps:
                await take(harness, search, step, mitras, chance)
                await check_counts(harness, search)

    harness.run(play())


async def take(harness: Harness, search: Session, step: str, mitras: list[Actor], chance: random.Random) -> None:
    """Take one step of a search; a refusal is one of the results."""
    runtime = harness.runtime
    if step == "wave":
        await next_wave(harness)
    elif step == "round":
        await next_round(harness)
    elif step == "newcomer":
        mitras.append(newcomer := await harness.mitra())
        await presence.go_online(runtime, newcomer)
        await pairing_advance.invite_available(runtime)
    elif step == "cancel":
        assert search.payment_request_id is not None
        customer = attrs.evolve(
            mitras[0] if mitras else await harness.mitra(), user_id=search.customer_id, ids=(search.customer_id,)
        )
        await outcome(pairing_cancel.cancel(runtime, customer, payment_request_id=search.payment_request_id))
    elif mitras:
        one = chance.choice(mitras)
        work = {
            "reject": lambda: pairing_answer.reject(runtime, one, session_id=search.id),
            "accept": lambda: pairing_answer.accept(runtime, one, session_id=search.id),
            "offline": lambda: presence.go_offline(runtime, mitra_id=one.user_id),
            "online": lambda: presence.go_online(runtime, one),
        }[step]
        await outcome(work())


@pytest.mark.slow
def test_round_of_a_large_blast_reads_its_invitations_once(clean_harness: Harness) -> None:
    """Other searches' invitations are not read, and the statement of the beginning reads the search's own once."""

    async def play() -> None:
        await crowd(clean_harness, 200)
        others = [await begin(clean_harness) for _ in range(30)]
        await clean_harness.runtime.db.fetch("ANALYZE chat_request_notifications, search_rounds")
        async with clean_harness.runtime.transaction() as tx:
            await pairing.close_open(tx, others[0].id, Response.IGNORED)
        before = await rows_read(clean_harness)
        async with clean_harness.runtime.transaction() as tx:
            await round_records.end(tx, [others[0].id])
            await tx.execute("DELETE FROM search_rounds WHERE session_id = $1", others[0].id)
            await round_records.begin(tx, [others[0].id], POLICY)
        assert 200 <= await rows_read(clean_harness) - before < 5 * 200
        args = ([ids.new_id()], [others[1].id], clean_harness.runtime.now(), False, 45.0, 3, None)
        plan = "\n".join(row[0] for row in await clean_harness.runtime.db.fetch(f"EXPLAIN {BEGIN_ROUNDS}", *args))
        assert "hashed SubPlan" in plan

    clean_harness.run(play())


@pytest.mark.slow
def test_end_of_a_late_round_reads_its_own_invitations_only(clean_harness: Harness) -> None:
    async def play() -> None:
        await crowd(clean_harness, 100)
        search, *_ = [await begin(clean_harness) for _ in range(10)]
        for _ in range(9):
            await next_round(clean_harness)
        await clean_harness.runtime.db.fetch("ANALYZE chat_request_notifications, search_rounds")
        async with clean_harness.runtime.transaction() as tx:
            await pairing.close_open(tx, search.id, Response.IGNORED)
        before = await rows_read(clean_harness)
        async with clean_harness.runtime.transaction() as tx:
            await round_records.end(tx, [search.id])
        assert 100 <= await rows_read(clean_harness) - before <= 300  # of 1,000
        assert await found(clean_harness, search, "asked", "unanswered") == [(100, 100)] * 10

    clean_harness.run(play())


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("accept", ("active", 1)),
        ("timeout", ("searching", 2)),
        ("cancel", ("cancelled", 1)),
        ("fallback", ("searching", 2)),
    ],
)
def test_search_goes_on_when_its_rounds_cannot_be_stored(
    clean_harness: Harness, how: str, expected: tuple[str, int]
) -> None:
    async def play() -> None:
        runtime = clean_harness.runtime
        (mitra,) = await crowd(clean_harness, 1)
        customer, wish = await clean_harness.customer(), WISH
        if how == "fallback":
            at, pair = runtime.now() - dt.timedelta(hours=1), (customer.user_id, mitra.user_id)
            async with runtime.transaction() as tx:
                await transitions.create_completed(
                    tx, ids.new_id(), customer_id=pair[0], mitra_id=pair[1], began_at=at, ended_at=at, topics=None
                )
            wish = attrs.evolve(WISH, targeted_mitra_id=mitra.user_id)
        request_id = await clean_harness.paid(customer, wish)
        async with refused_rounds(clean_harness):
            before = failures("begin"), failures("end")
            await pairing_start.start(runtime, payment_request_id=request_id)
            search = await clean_harness.session_of(request_id)
            await act(clean_harness, how, search, mitra, customer)
            after = await clean_harness.session_of(request_id)
            assert failures("begin") - before[0] == after.round_number
            assert failures("end") - before[1] == 1
        assert (after.status, after.round_number) == expected
        assert await found(clean_harness, search, "id") == []

    clean_harness.run(play())


async def act(harness: Harness, how: str, search: Session, mitra: Actor, customer: Actor) -> None:
    assert search.payment_request_id is not None
    if how == "accept":
        await pairing_answer.accept(harness.runtime, mitra, session_id=search.id)
    elif how == "timeout":
        await next_round(harness)
    elif how == "cancel":
        await pairing_cancel.cancel(harness.runtime, customer, payment_request_id=search.payment_request_id)
    else:
        await pairing_fallback.fall_back(harness.runtime, customer, payment_request_id=search.payment_request_id)


@contextlib.asynccontextmanager
async def refused_rounds(harness: Harness) -> AsyncIterator[None]:
    """Make each write of `search_rounds` fail."""
    run = harness.runtime.db.fetch
    await run(REFUSED)
    await run("CREATE TRIGGER refused BEFORE INSERT OR UPDATE ON search_rounds EXECUTE FUNCTION refused()")
    try:
        yield
    finally:
        await run("DROP FUNCTION refused CASCADE")


def failures(step: str) -> float:
    return metrics.REGISTRY.get_sample_value("sesi_search_rounds_failed_total", {"step": step}) or 0


def test_round_that_is_slow_to_store_ends_after_half_a_second(clean_harness: Harness) -> None:
    """Later statements of the transaction have the timeout from before."""

    async def play() -> None:
        async with clean_harness.runtime.transaction() as tx:
            limit = await tx.fetchval("SELECT current_setting('statement_timeout')")
            assert isinstance(await tx.attempt("SELECT pg_sleep(60)"), asyncpg.QueryCanceledError)
            assert await tx.fetchval("SELECT current_setting('statement_timeout')") == limit
            assert await tx.attempt("SELECT 1") is None
            assert await tx.fetchval("SELECT current_setting('statement_timeout')") == limit
            assert limit == "4s"

    clean_harness.run(play())


def test_earlier_round_is_not_called_the_last_one(clean_harness: Harness) -> None:
    async def play() -> None:
        (mitra,) = await crowd(clean_harness, 1)
        search = await begin(clean_harness)
        await next_round(clean_harness)
        await pairing_answer.reject(clean_harness.runtime, mitra, session_id=search.id)
        en, _ = await why(clean_harness, search)
        assert en is not None
        assert "Its last round, number 2," in en
        # An older process ended the search, and did not store the end of the round.
        await clean_harness.runtime.db.fetch("UPDATE search_rounds SET ended_at = NULL WHERE round_number = 2")
        en, _ = await why(clean_harness, search)
        assert en == "The customer paid, but every invited mitra rejected the request."

    clean_harness.run(play())


def test_rounds_are_deleted_after_their_retention(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime = clean_harness.runtime
        search = await begin(clean_harness)
        await next_round(clean_harness)
        old = id_ranges.first_id(runtime.now() - round_records.KEEP - dt.timedelta(seconds=1))
        await runtime.db.fetch("UPDATE search_rounds SET id = $1 WHERE round_number = 1", old)
        await round_records.purge(runtime)
        assert await found(clean_harness, search, "round_number") == [(2,)]

    clean_harness.run(play())


def a_round(number: int, **counts: int) -> EndedRound:
    zero = dict.fromkeys(("online", "fresh", "with_room", "askable", *ENDS), 0)
    return EndedRound(
        session_id=SessionId(Id("s")),
        round_number=number,
        ended_at=dt.datetime(2026, 1, number, tzinfo=dt.UTC),
        **{**zero, **counts},
        is_last=True,
    )


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({}, "0 online"),
        ({"online": 12, "fresh": 12, "with_room": 3, "askable": 1, "asked": 1, "unanswered": 1}, "12 online: 9 full, 2 had declined, 1 did not answer"),
        ({"online": 5, "fresh": 5, "with_room": 5, "askable": 5, "asked": 2, "rejected": 2}, "5 online: 2 rejected, 3 not asked"),
        ({"online": 1, "fresh": 1, "with_room": 1, "askable": 1, "asked": 3, "closed": 3}, "1 online: 3 closed before they answered, 2 of them available later"),
    ],
)  # fmt: skip
def test_summary_says_what_the_online_mitras_did(counts: dict[str, int], said: str) -> None:
    assert a_round(1, **counts).summary().en == said
    assert of_last(a_round(4, **counts)).en == f"Its last round, number 4, had {said}."


def test_rounds_that_asked_mitras_have_their_own_entries() -> None:
    asked = {"online": 1, "fresh": 1, "with_room": 1, "askable": 1, "asked": 1, "unanswered": 1}
    given_ = [
        a_round(1),
        a_round(2),
        a_round(3, **asked),
        a_round(4, **asked),
        a_round(5, online=1, fresh=1),
        a_round(6),
    ]
    numbers = [(first.round_number, last.round_number) for first, last in alike(given_)]
    assert numbers == [(1, 2), (3, 3), (4, 4), (5, 5), (6, 6)]
