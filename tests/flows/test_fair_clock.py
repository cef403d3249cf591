"""While the chat is out no deadline of a session passes, and its time is given back first (docs/fairness.md)."""

import asyncio
import datetime as dt
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.base import ids
from core.base.errors import Unavailable
from core.base.field_types import ExtensionId, Id
from core.cluster.outages import store as outages
from core.cluster.outages.rules import LEASE_S, RENEW_EVERY_S
from core.desk.ledger.audit_rules import RULES
from core.desk.timeline.timeline import timeline
from core.pairing import advance as pairing_advance
from core.pairing import answer as pairing_answer
from core.pairing import presence
from core.pairing import start as pairing_start
from core.pairing.rules import RequestClosed
from core.sessions import rules as session_rules
from core.sessions import store as sessions
from core.sessions import timers as session_timers
from core.sessions.clock import fair_clock, session_clock
from core.sessions.extensions import answer as extension_answer
from core.sessions.extensions import ask as extension_ask
from core.sessions.extensions import extend
from core.sessions.extensions import request as extension_request
from core.sessions.extensions import store as extensions
from core.sessions.extensions.request import MoreMinutes
from core.sessions.extensions.rules import ExtensionNotPending
from core.sessions.extensions.states import ExtensionStatus
from core.sessions.extensions.store import Extension
from core.sessions.messages import send as message_send
from core.sessions.rules import SessionNotActive
from tests.flows.chats import Chat, a_chat
from tests.flows.conftest import ADDRESS, READER, Harness, rows
from tests.flows.test_outage_records import HUB, HUB2, ago, begin, begin_lasting, recorded
from tests.flows.test_time_credits import ROW, SECOND, aged, give
from tests.tiers import examples

CREDITS = "SELECT reason, milliseconds FROM session_time_credits WHERE session_id = $1 ORDER BY began_at"
ALIVE_AT = "SELECT alive_at FROM service_processes WHERE place = $1"
OPEN = """INSERT INTO outages (id, kind, began_at, ended_at, credit_at) VALUES (gen_random_uuid(), $1, $2, $3, $3)"""


@pytest.fixture
def fair(harness: Harness) -> Iterator[Harness]:
    """Turn the fair clock on, with one realtime process that has a lease and no outage."""
    harness.run(harness.clear())
    harness.run(harness.empty("service_processes", "outages"))
    harness.run(begin_lasting(harness, HUB))
    with rows(harness.runtime, fair_clock=True):
        yield harness
    harness.run(harness.empty("service_processes", "outages"))


async def outage(
    harness: Harness, began: float, ended: float, *, kind: str = "realtime", now: dt.datetime | None = None
) -> None:
    """Record an outage between two moments, in seconds before `now`, that is to be credited."""
    now = now or harness.runtime.now()
    await harness.runtime.db.fetch(OPEN, kind, now - began * SECOND, now - ended * SECOND)


async def credited(chat: Chat) -> list[tuple[str, float]]:
    """Return reason and seconds of a session's credits."""
    found = await chat.harness.runtime.db.fetch(CREDITS, chat.id)
    return [(row["reason"], row["milliseconds"] / 1000) for row in found]


async def tick(harness: Harness) -> None:
    """Run every sweep of sessions once, as the jobs process does."""
    await session_timers.warn(harness.runtime)
    await session_timers.expire(harness.runtime)
    await session_timers.complete(harness.runtime)


def test_dead_processes_are_credited_before_any_session_expires(fair: Harness) -> None:
    async def play() -> None:
        chat = await a_chat(fair)
        before = await aged(chat, left=-10)  # its time ended during the outage
        await ago(fair, 90, HUB)
        await tick(fair)
        assert (await chat.row(ROW))["status"] == "active"
        async with fair.runtime.transaction() as tx:
            await outages.begin(tx, HUB, renewed_at=None, fair_clock=True)
        await tick(fair)  # the outage is recorded, but not credited
        assert (await chat.row(ROW))["status"] == "active"
        assert await fair_clock.credit(fair.runtime) == 1
        await tick(fair)
        after, [(_, lasted)] = await chat.row(ROW), await recorded(fair)
        assert lasted >= 89.5
        assert (after["status"], await credited(chat)) == ("active", [("realtime", pytest.approx(lasted, abs=0.001))])
        assert after["expires_at"] - before["expires_at"] == pytest.approx(lasted * SECOND, abs=SECOND / 1000)
        assert await fair_clock.credit(fair.runtime) == 0

    fair.run(play())


def test_row_turned_off_lets_deadlines_pass_and_drops_credits(fair: Harness) -> None:
    async def play() -> None:
        chat = await a_chat(fair)
        await aged(chat, left=-10)
        await outage(fair, 60, 5)
        with rows(fair.runtime, fair_clock=False):
            await session_timers.expire(fair.runtime)
            assert await fair_clock.credit(fair.runtime) == 0
        assert (await chat.row(ROW))["status"] == "expired"
        assert await fair_clock.credit(fair.runtime) == 0
        assert await credited(chat) == []

    fair.run(play())


def test_outage_recorded_while_the_row_is_off_is_never_credited(fair: Harness) -> None:
    async def play() -> None:
        chat = await a_chat(fair)
        await aged(chat, left=100)
        await ago(fair, 30, HUB)
        await begin(fair, HUB)
        assert await fair_clock.credit(fair.runtime) == 0
        assert await credited(chat) == []

    fair.run(play())


def test_one_of_two_dead_realtime_processes_stops_no_clock(fair: Harness) -> None:
    async def play() -> None:
        await begin_lasting(fair, HUB2)
        chat = await a_chat(fair)
        await aged(chat, left=-1)
        await ago(fair, 90, HUB)
        async with fair.runtime.transaction() as tx:
            await outages.begin(tx, HUB, renewed_at=None, fair_clock=True)
        await session_timers.expire(fair.runtime)
        assert (await chat.row(ROW))["status"] == "expired"
        assert await fair_clock.credit(fair.runtime) == 0

    fair.run(play())


def test_credits_wait_until_a_realtime_process_is_back(fair: Harness) -> None:
    async def play() -> None:
        chat = await a_chat(fair)
        await aged(chat, left=100)
        await outage(fair, 60, 30, kind="database")
        await ago(fair, 61, HUB)
        assert await fair_clock.credit(fair.runtime) == 0
        await begin(fair, HUB)
        assert await fair_clock.credit(fair.runtime) == 1

    fair.run(play())


def test_cap_bounds_each_credit(fair: Harness) -> None:
    async def play() -> None:
        chat = await a_chat(fair)
        await aged(chat, left=100)
        await outage(fair, 300, 10)
        with rows(fair.runtime, fair_clock=True, fair_clock_max_seconds=120):
            assert await fair_clock.credit(fair.runtime) == 1
        assert await credited(chat) == [("realtime", 120)]

    fair.run(play())


@pytest.mark.parametrize("resumed", [False, True])
def test_session_that_began_late_in_a_long_outage_loses_all_of_its_rest(fair: Harness, *, resumed: bool) -> None:
    async def play() -> None:
        chat = await a_chat(fair)
        await aged(chat, left=600)
        column = "resumed_at" if resumed else "paired_at"
        now = fair.runtime.now()
        await fair.runtime.db.fetch(f"UPDATE chat_sessions SET {column} = $2 WHERE id = $1", chat.id, now - 50 * SECOND)
        await outage(fair, 300, 10, now=now)
        with rows(fair.runtime, fair_clock=True, fair_clock_max_seconds=120):
            async with fair.runtime.transaction() as tx:
                session = await sessions.lock(tx, chat.id)
                assert session is not None
                late = tx.now - await session_clock.now(fair.runtime, tx, session)
            assert late == 40 * SECOND
            assert await fair_clock.credit(fair.runtime) == 1
        assert await credited(chat) == [("realtime", 40)]

    fair.run(play())


def test_session_that_a_late_transaction_paired_during_the_outage_is_found_by_the_second_look(fair: Harness) -> None:
    async def play() -> None:
        await outage(fair, 40, 10)
        assert await fair_clock.credit(fair.runtime) == 0
        chat = await a_chat(fair)
        await aged(chat, left=600)
        await fair.runtime.db.fetch("UPDATE outages SET credit_at = now() - interval '1 s'")
        assert await fair_clock.credit(fair.runtime) == 1
        assert await fair.runtime.db.fetchval("SELECT count(*) FROM outages WHERE credit_at IS NOT NULL") == 0

    fair.run(play())


def test_many_sessions_are_credited_in_batches(fair: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_clock, "BATCH", 2)

    async def play() -> None:
        chats = [await a_chat(fair) for _ in range(5)]
        for chat in chats:
            await aged(chat, left=100)
        assert await give(chats[1], 50, 5, reason="mitra_absent") > 0  # nothing is left of the outage for this one
        await outage(fair, 40, 10)
        await fair_clock.credit(fair.runtime)
        for n, chat in enumerate(chats):
            assert len(await credited(chat)) == 1, n

    fair.run(play())


BAD = """CREATE OR REPLACE FUNCTION bad_session() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN IF NEW.session_id = '%s' THEN RAISE 'bad'; END IF; RETURN NEW; END $$;
  CREATE TRIGGER bad_session BEFORE INSERT ON session_time_credits FOR EACH ROW EXECUTE FUNCTION bad_session()"""


async def execute(harness: Harness, sql: str) -> None:
    """Run several statements."""
    async with harness.runtime.db.pool.acquire() as connection:
        await connection.execute(sql)


@pytest.mark.slow
def test_session_that_can_not_be_credited_stops_no_other_clock_and_is_tried_again(fair: Harness) -> None:
    async def play() -> None:
        chats = [await a_chat(fair) for _ in range(3)]
        for chat in chats:
            await aged(chat, left=100)
        await outage(fair, 40, 10)
        await execute(fair, BAD % chats[1].id)
        try:
            assert await fair_clock.credit(fair.runtime) == 2
        finally:
            await execute(fair, "DROP TRIGGER bad_session ON session_time_credits")
        assert await fair.runtime.db.fetchval("SELECT count(*) FROM outages WHERE credited_at IS NULL") == 0
        assert [len(await credited(chat)) for chat in chats] == [1, 0, 1]
        await fair.runtime.db.fetch("UPDATE outages SET credit_at = now() - interval '1 s'")
        await begin(fair, HUB)
        assert await fair_clock.credit(fair.runtime) == 1
        assert [len(await credited(chat)) for chat in chats] == [1, 1, 1]

    fair.run(play())


def test_two_jobs_processes_at_once_give_one_credit(fair: Harness) -> None:
    async def play() -> None:
        chats = [await a_chat(fair) for _ in range(3)]
        for chat in chats:
            await aged(chat, left=100)
        now = fair.runtime.now()
        await outage(fair, 40, 10, now=now)
        await outage(fair, 25, 5, kind="database", now=now)
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(fair_clock.credit(fair.runtime))
        for chat in chats:
            assert await credited(chat) == [("realtime", 30), ("database", 5)]
        again = await fair.runtime.db.fetchval("SELECT count(*) FROM outages WHERE credit_at > now()")
        assert again == 2  # the second look is still to come

    fair.run(play())


async def violations(harness: Harness, name: str) -> list[str]:
    """Return the ids that break a rule of the audit."""
    (rule,) = [rule for rule in RULES if rule.name == name]
    return [row[0] for row in await harness.runtime.db.fetch(rule.sql)]


def test_audit_adds_credits_to_the_paid_time_and_the_timeline_shows_them(fair: Harness) -> None:
    async def play() -> None:
        chat = await a_chat(fair)
        await aged(chat, left=100)
        now = fair.runtime.now()
        await outage(fair, 40, 10, now=now)
        await outage(fair, 25, 5, kind="database", now=now)
        await fair_clock.credit(fair.runtime)
        ends, twice = "a session ends exactly after its paid time", "no moment of a session is credited twice"
        assert (await violations(fair, ends), await violations(fair, twice)) == ([], [])
        payment = await chat.row("SELECT payment_request_id::text AS id FROM chat_sessions WHERE id = $1")
        told = [
            one.text
            for one in (await timeline(fair.runtime, READER, payment["id"])).entries
            if one.kind == "time_credited"
        ]
        assert [text.partition(" from ")[0] for text in told] == [
            "The session got 30 s back: no realtime process was running",
            "The session got 5 s back: the database could not be written",
        ]
        await chat.row("UPDATE chat_sessions SET expires_at = expires_at - interval '1 ms' WHERE id = $1 RETURNING id")
        assert await violations(fair, ends) == [chat.id]
        await chat.row(
            "UPDATE session_time_credits SET milliseconds = 20000 WHERE session_id = $1 AND reason = 'database' RETURNING id"
        )
        assert await violations(fair, twice) == [chat.id]

    fair.run(play())


def test_searches_wait_while_no_realtime_process_lives(fair: Harness) -> None:
    async def play() -> None:
        request = await fair.paid(await fair.customer())
        await pairing_start.start(fair.runtime, payment_request_id=request)
        search = await fair.session_of(request)
        await fair.runtime.db.fetch(
            "UPDATE chat_sessions SET round_ends_at = now() - interval '1 s', search_ends_at = now() - interval '1 s' WHERE id = $1",
            search.id,
        )
        await ago(fair, 60, HUB)
        assert await pairing_advance.end_rounds(fair.runtime) == 0
        assert (await fair.session_of(request)).status == "searching"
        await begin(fair, HUB)
        assert await pairing_advance.end_rounds(fair.runtime) == 1

    fair.run(play())


def test_chat_request_is_accepted_after_its_time_while_the_clock_stands(fair: Harness) -> None:
    async def play() -> None:
        mitra = await fair.mitra()
        await presence.go_online(fair.runtime, mitra)
        request = await fair.paid(await fair.customer())
        await pairing_start.start(fair.runtime, payment_request_id=request)
        search = await fair.session_of(request)
        late = (
            "UPDATE chat_sessions SET round_ends_at = now() - interval '2 s', search_ends_at = now() - interval '1 s'"
        )
        await fair.runtime.db.fetch(f"{late} WHERE id = $1", search.id)
        with pytest.raises(RequestClosed):
            await pairing_answer.accept(fair.runtime, mitra, session_id=search.id)
        await outage(fair, 40, 5)
        await pairing_answer.accept(fair.runtime, mitra, session_id=search.id)
        assert (await fair.session_of(request)).status == "active"

    fair.run(play())


def test_extension_is_answered_after_its_time_while_the_clock_stands(fair: Harness) -> None:
    async def play() -> None:
        chat = await a_chat(fair)
        await aged(chat, left=100)
        made = await extension_request.request_extension(
            fair.runtime, chat.customer, MoreMinutes(session_id=chat.id, duration_minutes=12), address=ADDRESS
        )
        await fair.report_paid(made.payment_request_id, made.amount)
        await extension_ask.ask(fair.runtime, payment_request_id=made.payment_request_id)
        asked = await extensions.pending_of(fair.runtime.db, chat.id)
        assert asked is not None
        late = "UPDATE session_extensions SET requested_at = requested_at - interval '9 min', answer_by = now() - interval '1 s' WHERE id = $1"
        await fair.runtime.db.fetch(late, asked.id)

        async def answer() -> None:
            await extension_answer.answer(
                fair.runtime, chat.mitra, session_id=chat.id, extension_id=asked.id, accept=True
            )

        with pytest.raises(ExtensionNotPending):
            await answer()
        await outage(fair, 40, 5)
        await answer()
        assert (await chat.row("SELECT extended_minutes FROM chat_sessions WHERE id = $1"))["extended_minutes"] == 12

    fair.run(play())


def test_message_after_the_uncredited_end_is_to_be_sent_again(fair: Harness) -> None:
    async def play() -> None:
        chat = await a_chat(fair)
        await aged(chat, left=-10)
        await outage(fair, 40, 5)
        draft = chat.draft(chat.customer)
        with pytest.raises(Unavailable):
            await message_send.send_one(fair.runtime, chat.customer, draft)
        _, answers = await message_send.commit_batch(fair.runtime, [draft], {})
        assert await message_send.go_on(fair.runtime, [draft], answers) == {chat.id}
        await fair_clock.credit(fair.runtime)
        await message_send.send_one(fair.runtime, chat.customer, draft)
        over = await a_chat(fair)
        await aged(over, left=-60)
        with pytest.raises(SessionNotActive):
            await message_send.send_one(fair.runtime, over.customer, over.draft(over.customer))

    fair.run(play())


async def extended(chat: Chat, *, minutes: int) -> None:
    """Extend a session by a paid extension that its mitra approves now."""
    runtime = chat.harness.runtime
    async with runtime.transaction() as tx:
        session = await sessions.lock(tx, chat.id)
        assert session is not None
        extension = Extension(
            id=ExtensionId(Id(ids.new_id())),
            session_id=session.id,
            payment_request_id=None,
            requested_duration_minutes=minutes,
            requested_price=0,
            status=ExtensionStatus.APPROVED,
            requested_at=tx.now,
            answer_by=tx.now,
            responded_at=tx.now,
        )
        await extend._prolong(runtime, tx, session, extension)


@pytest.mark.parametrize("left", [-60.0, -10.0, 200.0])
def test_extension_during_an_outage_leaves_the_paid_time_whole(fair: Harness, left: float) -> None:
    """The session's time ended before, during or after an outage that began 40 s ago and lasts."""

    async def play() -> None:
        chat = await a_chat(fair)
        await aged(chat, left=left)
        await fair.runtime.db.fetch("UPDATE chat_sessions SET status = 'active' WHERE id = $1", chat.id)
        await ago(fair, 40 + LEASE_S, HUB)
        began = await fair.runtime.db.fetchval(ALIVE_AT, HUB.name) + RENEW_EVERY_S / 2 * SECOND
        before = await chat.row(ROW)
        if left == -60:
            await fair.runtime.db.fetch(
                "UPDATE chat_sessions SET status = 'expired', warn_at = NULL, grace_ends_at = expires_at + interval '5 min' WHERE id = $1",
                chat.id,
            )
        await extended(chat, minutes=12)
        async with fair.runtime.transaction() as tx:
            now, _ = await outages.begin(tx, HUB, renewed_at=None, fair_clock=True)
        await fair_clock.credit(fair.runtime)
        after = await chat.row(ROW)
        paid = max(before["expires_at"] - began, dt.timedelta()) + dt.timedelta(minutes=12)
        assert after["expires_at"] - now == pytest.approx(paid, abs=SECOND)
        assert after["status"] == "active"

    fair.run(play())


# Time passes: everything that is stored becomes older by $1 seconds.
ELAPSE = f"""WITH p AS (SELECT make_interval(secs => $1) AS by), a AS (
  UPDATE chat_sessions SET paired_at = paired_at - by, resumed_at = resumed_at - by, expires_at = expires_at - by,
    warn_at = warn_at - by, grace_ends_at = grace_ends_at - by FROM p
), b AS (
  UPDATE outages SET began_at = began_at - by, ended_at = ended_at - by, credit_at = credit_at - by FROM p
), c AS (
  UPDATE session_time_credits SET began_at = began_at - by, ended_at = ended_at - by FROM p
) UPDATE service_processes SET since_at = since_at - by, alive_at = alive_at - by,
    lost_at = least(lost_at, alive_at + interval '{LEASE_S} s') - by FROM p"""
RENEW = "UPDATE service_processes SET alive_at = now(), lost_at = now() + interval '1 hour'"
HELD_STEP = st.tuples(st.sampled_from(["talk", "realtime", "database"]), st.integers(5, 200))
STEPS = st.lists(
    st.one_of(
        HELD_STEP, st.tuples(st.sampled_from(["late realtime", "extend", "extend in an outage"]), st.integers(5, 200))
    ),
    min_size=1,
    max_size=7,
)


@given(steps=STEPS, left=st.integers(20, 600))
@settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_time_to_talk_is_the_time_paid_after_any_sequence_of_outages_and_extensions(
    fair: Harness, steps: list[tuple[str, int]], left: int
) -> None:
    """`paid` is what the session has left while both can talk; 0 after its end."""
    runtime = fair.runtime

    async def elapse(seconds: float) -> None:
        await runtime.db.fetch(ELAPSE, seconds)

    async def talk(seconds: float) -> None:
        """Let time pass in which the realtime process renews its lease."""
        await elapse(seconds)
        await runtime.db.fetch(RENEW)

    async def back(kind: str) -> None:
        alive = await runtime.db.fetchval(ALIVE_AT, HUB.name)
        async with runtime.transaction() as tx:
            await outages.begin(tx, HUB, renewed_at=alive if kind == "database" else None, fair_clock=True)

    async def play() -> None:
        await fair.clear()
        await fair.empty("service_processes", "outages")
        await begin_lasting(fair, HUB)
        chat = await a_chat(fair)
        await aged(chat, left=left)
        paid, out, began = float(left), 0, runtime.now()
        for kind, size in steps:
            if kind == "talk":
                await talk(size)
                paid = max(0.0, paid - size)
            elif kind == "extend":
                await extended(chat, minutes=1)
                paid += 60
            else:
                await elapse(size)
                await tick(fair)
                out += 1
                if kind == "extend in an outage":
                    await extended(chat, minutes=1)
                    paid += 60
                await back(kind)
                if kind == "late realtime":  # the jobs process is away as well, and the chat goes on
                    await talk(7)
                    paid = max(0.0, paid - 7)
                await tick(fair)
                await fair_clock.credit(runtime)
            await talk(0)
            ticked = runtime.now()
            await tick(fair)
            row, now = await chat.row(ROW), runtime.now()
            if row["status"] not in ("active", "expired"):
                break
            slow = (now - began).total_seconds()
            is_left = (row["expires_at"] - now).total_seconds()
            assert max(0.0, is_left) == pytest.approx(paid, abs=0.3 + slow + out * 0.6), (kind, size)
            if not ticked < row["expires_at"] <= now:  # else the sweep was before or after the end
                assert (row["status"] == "active") == (is_left > 0)
            if row["status"] == "active" and is_left > 181:
                assert row["warn_at"] == row["expires_at"] - session_rules.WARNING

    fair.run(play())
