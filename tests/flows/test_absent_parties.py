"""Absent parties of active sessions (docs/fairness.md#absent-party), in the tests' own process, with a clock that the
test moves."""

import asyncio
import datetime as dt
import json
from collections.abc import Callable, Iterator
from typing import Any

import asyncpg
import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.base import ids
from core.base.actor import Actor, UserType
from core.base.clock import Clock
from core.desk import figures, support
from core.desk.timeline.timeline import timeline
from core.sessions import timers as session_timers
from core.sessions import transitions
from core.sessions.absences import declare as absences
from core.sessions.absences import store
from core.sessions.absences.signs_of_life import SignsOfLife
from core.sessions.clock import time_credits
from core.sessions.messages import chats
from core.sessions.rules import CreditReason
from core.sessions.states import SessionStatus
from tests.flows.chats import Chat, a_chat
from tests.flows.conftest import READER, Harness, rows
from tests.tiers import examples

SECOND = dt.timedelta(seconds=1)
AFTER = 30  # seconds of silence
EXCUSE = 300  # seconds, for GIVEN_UP below
PARTIES = ("customer", "mitra")
# Processes that have taken signs for a day.
ALIVE = """INSERT INTO service_processes (place, kind, since_at, alive_at, lost_at, given_up_at)
  SELECT 'steady-' || kind, kind, $1::timestamptz - interval '1 day', $1, $1 + interval '2 hours', $1 + interval '1 minute'
  FROM unnest(ARRAY['realtime', 'api']) AS k (kind)
  ON CONFLICT (place) DO UPDATE SET since_at = excluded.since_at, alive_at = excluded.alive_at,
    lost_at = excluded.lost_at, given_up_at = excluded.given_up_at"""
EVENTS = """SELECT recipient_type, event, payload FROM deliveries
  WHERE session_id = $1 AND event IN ('peer_absent', 'peer_returned') ORDER BY id"""
ABSENCES = (
    "SELECT user_type, since, declared_at, ended_at, returned FROM session_absences WHERE session_id = $1 ORDER BY id"
)
REFUSED = """CREATE OR REPLACE FUNCTION absence_refused() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN RAISE 'refused'; END $$"""
CLOSE = """UPDATE chat_sessions SET status = 'closing', ended_at = $2::timestamptz, ended_by = 'operator',
  grace_ends_at = $2::timestamptz + interval '5 minutes' WHERE id = $1"""
COUNTS = """SELECT (SELECT count(*) FROM session_presence) + (SELECT count(*) FROM session_absences)
  + (SELECT count(*) FROM deliveries WHERE event LIKE 'peer%')"""
TOKEN = """INSERT INTO auth_sessions (id, user_id, user_type, refresh_token_hash, push_token, created_at, expires_at, last_used_at)
  VALUES ($1, $2, $3, $4, $4, $5::timestamptz, $5::timestamptz + interval '1 day', $5::timestamptz)"""


class ManualClock(Clock):
    """A clock that stands until the test moves it."""

    def __init__(self, at: dt.datetime) -> None:
        super().__init__(anchor=at, scale=1.0)
        self.at = at

    def now(self) -> dt.datetime:
        """Return the service time."""
        return self.at


@attrs.define(kw_only=True)
class Stage:
    """One chat, and the time."""

    harness: Harness
    chat: Chat
    clock: ManualClock

    def pass_(self, seconds: float) -> dt.datetime:
        """Move the clock and return the time."""
        self.clock.at += seconds * SECOND
        return self.clock.at

    async def sign(self, *parties: str, at: dt.datetime | None = None) -> None:
        """Store signs of life of parties, now unless `at` is given."""
        actors = [self.chat.customer if party == "customer" else self.chat.mitra for party in parties]
        async with self.harness.runtime.transaction() as tx:
            signs: dict[str, dt.datetime] = {actor.user_id: at or self.clock.at for actor in actors}
            await store.see(tx, signs, gap=dt.timedelta())

    async def sweep(self) -> None:
        """Let the jobs process look."""
        await absences.sweep(self.harness.runtime)

    async def events(self) -> list[tuple[str, str, str, dt.datetime | None]]:
        """Return the (recipient, event, absent party, since) of each event so far."""
        found = []
        for row in await self.harness.runtime.db.fetch(EVENTS, self.chat.id):
            frame = json.loads(row["payload"])
            since = dt.datetime.fromisoformat(frame["since"]) if "since" in frame else None
            found.append((row["recipient_type"], row["event"], frame["user_type"], since))
        return found

    async def absences(self) -> list[tuple[Any, ...]]:
        """Return the stored absences."""
        return [tuple(row) for row in await self.harness.runtime.db.fetch(ABSENCES, self.chat.id)]

    async def expires_at(self) -> dt.datetime:
        """Return the end of the paid time."""
        return (await self.chat.row("SELECT expires_at FROM chat_sessions WHERE id = $1"))["expires_at"]

    async def restart_processes(self) -> None:
        """Let every process begin a new series of renewals."""
        await self.harness.runtime.db.fetch("UPDATE service_processes SET since_at = $1", self.clock.at)


@pytest.fixture
def on(clean_harness: Harness) -> Iterator[Harness]:
    """Yield a service that looks for absent parties, without the fair clock."""
    before = clean_harness.runtime.clock
    with rows(clean_harness.runtime, peer_absent_seconds=AFTER, fair_clock=False, fair_clock_max_seconds=900):
        yield clean_harness
    clean_harness.runtime.clock = before
    clean_harness.run(clean_harness.runtime.db.fetch("DELETE FROM service_processes WHERE place LIKE 'steady-%'"))
    clean_harness.run(clean_harness.runtime.db.fetch("DELETE FROM outages"))


async def a_stage(harness: Harness, clock: Clock) -> Stage:
    """Begin a chat, and stop the clock."""
    harness.runtime.clock = clock
    chat = await a_chat(harness)
    manual = ManualClock(clock.now())
    harness.runtime.clock = manual
    await harness.runtime.db.fetch(ALIVE, manual.at)
    await harness.runtime.db.fetch("DELETE FROM session_presence")
    return Stage(harness=harness, chat=chat, clock=manual)


def stage(harness: Harness) -> Stage:
    """Begin a chat, and stop the clock."""
    return harness.run(a_stage(harness, harness.runtime.clock))


# --- the rule


def test_a_silent_party_is_absent_after_the_configured_silence_and_the_other_is_told_once(on: Harness) -> None:
    async def play() -> None:
        began = it.clock.at
        await it.sign("customer", "mitra")
        it.pass_(AFTER - 1)
        await it.sign("mitra")
        await it.sweep()
        assert await it.events() == []
        declared = it.pass_(1)
        for _ in range(3):
            await it.sweep()
        assert await it.events() == [("mitra", "peer_absent", "customer", began)]
        assert await it.absences() == [("customer", began, declared, None, False)]

    it = stage(on)
    on.run(play())


def test_a_sign_of_any_device_ends_the_absence_with_one_event(on: Harness) -> None:
    async def play() -> None:
        began = it.clock.at
        await it.sign("customer", "mitra")
        it.pass_(AFTER)
        await it.sign("customer")
        declared = it.clock.at
        await it.sweep()
        back = it.pass_(20)
        await it.sign("mitra")
        for _ in range(3):
            await it.sweep()
        assert await it.events() == [
            ("customer", "peer_absent", "mitra", began),
            ("customer", "peer_returned", "mitra", None),
        ]
        assert await it.absences() == [("mitra", began, declared, back, True)]

    it = stage(on)
    on.run(play())


def test_a_party_who_never_came_is_silent_since_the_session_started(on: Harness) -> None:
    async def play() -> None:
        started = (await it.chat.row("SELECT paired_at FROM chat_sessions WHERE id = $1"))["paired_at"]
        it.clock.at = started + (AFTER - 1) * SECOND
        await it.sweep()
        assert await it.events() == []
        it.clock.at = started + AFTER * SECOND
        await it.sweep()
        assert sorted((one[2], one[3]) for one in await it.events()) == [(party, started) for party in PARTIES]

    it = stage(on)
    on.run(play())


def test_absent_party_is_pushed_at_once_and_the_other_is_not(on: Harness) -> None:
    async def play() -> None:
        for actor, token in ((it.chat.customer, "phone-of-customer"), (it.chat.mitra, "phone-of-mitra")):
            values = (ids.new_id(), actor.user_id, actor.user_type.value, token, it.clock.at)
            await on.runtime.db.fetch(TOKEN, *values)
        await it.sign("customer", "mitra")
        it.pass_(AFTER)
        await it.sign("customer")
        await it.sweep()
        pushes = await on.runtime.db.fetch("SELECT push_token, content FROM pushes")
        assert [row["push_token"] for row in pushes] == ["phone-of-mitra"]
        assert (pushes[0]["content"]["action"], pushes[0]["content"]["session_id"]) == ("open_session", it.chat.id)
        await on.runtime.db.fetch("DELETE FROM pushes")

    it = stage(on)
    on.run(play())


def test_silence_during_an_outage_does_not_count_and_starts_from_zero_after_it(on: Harness) -> None:
    async def play() -> None:
        await it.sign("customer", "mitra")
        it.pass_(AFTER - 1)
        await it.restart_processes()
        able = it.clock.at
        it.pass_(AFTER - 1)
        await it.sweep()
        assert await it.events() == []
        it.pass_(1)
        await it.sweep()
        assert {one[3] for one in await it.events()} == {able}

    it = stage(on)
    on.run(play())


def test_while_no_realtime_process_has_a_lease_nobody_is_declared_or_returns(on: Harness) -> None:
    async def play() -> None:
        await it.sign("customer", "mitra")
        it.pass_(AFTER)
        await it.sign("customer")
        await it.sweep()
        await on.runtime.db.fetch("UPDATE service_processes SET lost_at = alive_at")
        it.pass_(AFTER)
        await it.sign("customer", "mitra")
        await it.sweep()
        assert [one[1] for one in await it.events()] == ["peer_absent"]
        await on.runtime.db.fetch(ALIVE, it.clock.at)
        await it.sweep()
        assert [one[1] for one in await it.events()] == ["peer_absent", "peer_returned"]

    it = stage(on)
    on.run(play())


def test_operators_see_the_absence_in_the_session_the_overview_and_the_timeline(on: Harness) -> None:
    async def play() -> None:
        payment = (await it.chat.row("SELECT payment_request_id FROM chat_sessions WHERE id = $1"))[
            "payment_request_id"
        ]
        await it.sign("customer", "mitra")
        began = it.clock.at
        it.pass_(AFTER + 2)
        await it.sign("customer")
        await it.sweep()
        seen = await support.session(on.runtime, READER, it.chat.id)
        assert (seen.customer_absent_since, seen.mitra_absent_since) == (None, began)
        assert (await figures.overview(on.runtime)).absent == 1
        it.pass_(10)
        await it.sign("mitra")
        await it.sweep()
        seen = await support.session(on.runtime, READER, it.chat.id)
        assert (seen.customer_absent_since, seen.mitra_absent_since) == (None, None)
        assert (await figures.overview(on.runtime)).absent == 0
        entries = (await timeline(on.runtime, READER, str(payment))).entries
        assert [(one.kind, one.at - began, one.text) for one in entries if one.kind.startswith("party")] == [
            ("party_absent", (AFTER + 2) * SECOND, "The mitra was away: no sign of life for 32 s."),
            ("party_returned", (AFTER + 12) * SECOND, "The mitra returned after 42 s."),
        ]

    it = stage(on)
    on.run(play())


# --- the session's end


@pytest.mark.parametrize("how", ["ended", "expired"])
def test_no_event_follows_after_the_session_is_over(on: Harness, how: str) -> None:
    async def play() -> None:
        await it.sign("customer", "mitra")
        it.pass_(AFTER)
        await it.sign("customer")
        await it.sweep()
        if how == "expired":
            it.clock.at = await it.expires_at()
            await session_timers.expire(on.runtime)
            it.pass_(300)
            await session_timers.complete(on.runtime)
        else:
            await on.runtime.db.fetch(CLOSE, it.chat.id, it.clock.at)
        it.pass_(5)
        await it.sign("mitra")
        it.pass_(AFTER)
        await it.sweep()
        assert [one[1] for one in await it.events()] == ["peer_absent"]
        [(_, _, _, ended_at, returned)] = await it.absences()
        assert ended_at is not None
        assert not returned
        await absences.purge(on.runtime)
        assert await on.runtime.db.fetchval("SELECT count(*) FROM session_presence") == 0

    it = stage(on)
    on.run(play())


def test_absence_goes_on_over_an_extension_of_the_expired_session(on: Harness) -> None:
    async def play() -> None:
        began = it.clock.at
        await it.sign("customer", "mitra")
        it.pass_(AFTER)
        await it.sign("customer")
        await it.sweep()
        it.clock.at = await it.expires_at()
        await it.sign("customer")
        await session_timers.expire(on.runtime)
        it.pass_(60)
        await it.sign("customer")
        async with on.runtime.transaction() as tx:
            await transitions.prolong(
                tx,
                it.chat.id,
                before=SessionStatus.EXPIRED,
                expires_at=it.clock.at + 600 * SECOND,
                warn_at=None,
                minutes=10,
                resumed_at=it.clock.at,
            )
        await it.sweep()
        assert await it.events() == [("customer", "peer_absent", "mitra", began)]
        await it.sign("mitra")
        await it.sweep()
        assert [one[1] for one in await it.events()] == ["peer_absent", "peer_returned"]

    it = stage(on)
    on.run(play())


# --- the row


def test_with_the_row_off_signs_and_sweeps_write_nothing(on: Harness) -> None:
    async def play() -> None:
        signs = SignsOfLife(on.runtime, present=lambda: {it.chat.mitra.user_id})
        signs.note(it.chat.customer.ids)
        it.pass_(3600)
        await it.sweep()
        assert signs._noted == {}
        assert await on.runtime.db.fetchval(COUNTS) == 0

    it = stage(on)
    with rows(on.runtime, peer_absent_seconds=0):
        on.run(play())


def test_switching_the_row_off_ends_open_absences_without_a_credit(on: Harness) -> None:
    async def play() -> None:
        await it.sign("customer", "mitra")
        it.pass_(AFTER)
        await it.sign("customer")
        await it.sweep()
        before = await it.expires_at()
        with rows(on.runtime, peer_absent_seconds=0, fair_clock=True):
            it.pass_(10)
            await it.sweep()
        assert [one[1] for one in await it.events()] == ["peer_absent"], "nobody has returned"
        [(_, _, _, ended_at, returned)] = await it.absences()
        assert (ended_at, returned) == (it.clock.at, False)
        assert await it.expires_at() == before

    it = stage(on)
    on.run(play())


def test_silence_before_the_row_was_set_does_not_count(on: Harness) -> None:
    async def play() -> None:
        it.pass_(3 * AFTER)
        change = "UPDATE app_config SET updated_at = $1 WHERE key = 'peer_absent_seconds'"
        await on.runtime.db.fetch(change, it.clock.at)
        await it.sweep()
        it.pass_(AFTER - 1)
        await it.sweep()
        assert await it.events() == []
        it.pass_(1)
        await it.sweep()
        assert len(await it.events()) == 2
        await on.runtime.db.fetch(change, on.runtime.clock.now() - dt.timedelta(days=9))

    it = stage(on)
    on.run(play())


# --- credits


def credited_ms(it: Stage) -> Any:
    """Return the credits of the session, in milliseconds."""
    sql = "SELECT coalesce(sum(milliseconds), 0) FROM session_time_credits WHERE session_id = $1"
    return it.harness.runtime.db.fetchval(sql, it.chat.id)


@pytest.mark.parametrize(("party", "most", "credited"), [("mitra", 900, 50), ("mitra", 20, 20), ("customer", 900, 0)])
def test_absence_of_the_mitra_is_credited_on_return_once(on: Harness, party: str, most: int, credited: int) -> None:
    async def play() -> None:
        before = await it.expires_at()
        other = "customer" if party == "mitra" else "mitra"
        await it.sign("customer", "mitra")
        it.pass_(AFTER)
        await it.sign(other)
        await it.sweep()
        it.pass_(20)
        await it.sign(other, party)
        for _ in range(3):
            await it.sweep()
        assert await credited_ms(it) == credited * 1000
        assert await it.expires_at() == before + credited * SECOND

    it = stage(on)
    with rows(on.runtime, fair_clock=True, fair_clock_max_seconds=most):
        on.run(play())


def test_absence_over_an_extension_is_credited_from_the_extension_on(on: Harness) -> None:
    async def play() -> None:
        await it.sign("customer", "mitra")
        it.pass_(AFTER)
        await it.sign("customer")
        await it.sweep()
        it.pass_(100)
        await on.runtime.db.fetch(
            "UPDATE chat_sessions SET resumed_at = $2 WHERE id = $1", it.chat.id, it.clock.at - 15 * SECOND
        )
        before = await it.expires_at()
        await it.sign("customer", "mitra")
        await it.sweep()
        assert await it.expires_at() == before + 15 * SECOND

    it = stage(on)
    with rows(on.runtime, fair_clock=True, fair_clock_max_seconds=60):
        on.run(play())


@pytest.mark.parametrize("outage_first", [True, False])
def test_outage_within_an_absence_is_credited_once(on: Harness, *, outage_first: bool) -> None:
    async def play() -> None:
        before, began = await it.expires_at(), it.clock.at

        async def outage() -> None:
            async with on.runtime.transaction() as tx:
                await time_credits.give(
                    tx,
                    [it.chat.id],
                    reason=CreditReason.REALTIME,
                    began_at=began + 35 * SECOND,
                    ended_at=began + 45 * SECOND,
                    outage_id=ids.new_id(),
                )

        await it.sign("customer", "mitra")
        it.pass_(AFTER)
        await it.sign("customer")
        await it.sweep()
        it.pass_(20)
        if outage_first:
            await outage()
        await it.sign("mitra")
        await it.sweep()
        if not outage_first:
            await outage()
        assert await it.expires_at() == before + 50 * SECOND

    it = stage(on)
    with rows(on.runtime, fair_clock=True):
        on.run(play())


def test_mitra_who_returns_after_the_paid_time_brings_no_credit(on: Harness) -> None:
    async def play() -> None:
        await it.sign("customer", "mitra")
        it.pass_(AFTER)
        await it.sign("customer")
        await it.sweep()
        it.clock.at = await it.expires_at()
        await it.sign("mitra", at=it.clock.at - SECOND)
        await it.sweep()
        assert [one[1] for one in await it.events()] == ["peer_absent", "peer_returned"]
        assert await credited_ms(it) == 0

    it = stage(on)
    with rows(on.runtime, fair_clock=True):
        on.run(play())


# --- who dies, and who races


@pytest.mark.parametrize("table", ["session_absences", "deliveries", "session_time_credits", "chat_sessions"])
def test_transaction_that_fails_at_any_table_changes_nothing_and_the_next_sweep_does_all_once(
    on: Harness, table: str
) -> None:
    async def refused(work: Callable[[], Any], *, is_written: bool) -> None:
        await on.runtime.db.fetch(
            f"CREATE TRIGGER refused BEFORE INSERT OR UPDATE ON {table} EXECUTE FUNCTION absence_refused()"
        )
        try:
            if is_written:
                with pytest.raises(asyncpg.RaiseError, match="refused"):
                    await work()
        finally:
            await on.runtime.db.fetch(f"DROP TRIGGER refused ON {table}")

    async def play() -> None:
        before = await it.expires_at()
        await on.runtime.db.fetch(REFUSED)
        await it.sign("customer", "mitra")
        it.pass_(AFTER)
        await it.sign("customer")
        await refused(it.sweep, is_written=table in ("session_absences", "deliveries"))
        assert (await it.events(), await it.absences()) == ([], [])
        await it.sweep()
        it.pass_(20)
        await it.sign("mitra")
        await refused(it.sweep, is_written=True)
        assert len(await it.events()) == 1
        assert await it.expires_at() == before
        await it.sweep()
        assert [one[1] for one in await it.events()] == ["peer_absent", "peer_returned"]
        assert await it.expires_at() == before + 50 * SECOND

    it = stage(on)
    with rows(on.runtime, fair_clock=True):
        on.run(play())


def test_sweeps_of_many_processes_change_each_absence_once(on: Harness) -> None:
    async def together(count: int, run: Callable[[], Any]) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(run())

    async def play() -> None:
        before = await it.expires_at()
        await it.sign("customer", "mitra")
        it.pass_(AFTER)
        await together(8, it.sweep)
        await it.sweep()
        it.pass_(20)
        await together(4, lambda: it.sign("customer", "mitra"))
        await together(8, it.sweep)
        await it.sweep()
        assert sorted(one[1:3] for one in await it.events()) == [
            (event, party) for event in ("peer_absent", "peer_returned") for party in PARTIES
        ]
        assert await it.expires_at() == before + 50 * SECOND

    it = stage(on)
    with rows(on.runtime, fair_clock=True):
        on.run(play())


# --- the hub's writer


def test_writer_stores_arrivals_presence_and_departures(on: Harness) -> None:
    async def play() -> None:
        present = {it.chat.customer.user_id}
        signs = SignsOfLife(on.runtime, present=lambda: set(present))

        async def seen() -> tuple[Any, Any]:
            row = await it.chat.row(
                "SELECT customer_seen_at, mitra_seen_at FROM session_presence WHERE session_id = $1"
            )
            return row["customer_seen_at"], row["mitra_seen_at"]

        first = it.clock.at
        await signs.write(every_s=60)
        assert await seen() == (first, None)
        second = it.pass_(100)
        signs.note(it.chat.mitra.ids)
        await signs.write(every_s=60)
        assert await seen() == (first, second), "the customer's next sign is not due yet"
        it.pass_(100)
        present.clear()
        await signs.write(every_s=60)
        assert await seen() == (second, second), "the customer was there until the last look"
        it.pass_(100)
        signs.note(it.chat.mitra.ids)
        await signs.write(every_s=60)
        assert await seen() == (second, second), "a user's signs are stored at most each 60 s"
        await signs.write(every_s=0)
        assert (await seen())[1] == it.clock.at

    it = stage(on)
    on.run(play())


def test_writer_ends_the_absence_of_a_party_who_returns_without_the_jobs_process(on: Harness) -> None:
    async def play() -> None:
        await it.sign("customer", "mitra")
        it.pass_(AFTER)
        await it.sign("customer")
        await it.sweep()
        assert await away() == {it.chat.customer.user_id: True, it.chat.mitra.user_id: False}
        it.pass_(5)
        signs = SignsOfLife(on.runtime)
        signs.note(it.chat.mitra.ids)
        await signs.write(every_s=5)
        assert [one[1] for one in await it.events()] == ["peer_absent", "peer_returned"]
        assert set((await away()).values()) == {False}

    async def away() -> dict[str, bool]:
        found: dict[str, bool] = {}
        for actor in (it.chat.customer, it.chat.mitra):
            snapshot = await chats.snapshots(on.runtime, actor.user_type, [actor.user_id])
            [session] = snapshot[actor.user_id]
            found[actor.user_id] = session.peer_absent_since is not None
        return found

    it = stage(on)
    on.run(play())


def test_failed_write_is_repeated_with_all_signs(on: Harness) -> None:
    async def play() -> None:
        present = {it.chat.customer.user_id}
        signs = SignsOfLife(on.runtime, present=lambda: set(present))
        signs.note(it.chat.mitra.ids)
        await on.runtime.db.fetch("ALTER TABLE session_presence RENAME TO elsewhere")
        try:
            with pytest.raises(Exception, match="session_presence"):
                await signs.write(every_s=60)
        finally:
            await on.runtime.db.fetch("ALTER TABLE elsewhere RENAME TO session_presence")
        await signs.write(every_s=60)
        row = await it.chat.row("SELECT * FROM session_presence WHERE session_id = $1")
        assert None not in (row["customer_seen_at"], row["mitra_seen_at"])

    it = stage(on)
    on.run(play())


def test_sign_of_a_joined_account_counts_for_the_session_of_the_anonymous_one(on: Harness) -> None:
    async def play() -> None:
        signs = SignsOfLife(on.runtime)
        account = Actor(
            user_type=UserType.CUSTOMER,
            user_id=ids.new_id(),
            auth_session_id=ids.new_id(),
            expires_at=2**40,
            ids=(ids.new_id(), it.chat.customer.user_id),
        )
        signs.note(account.ids)
        await signs.write(every_s=5)
        row = await it.chat.row("SELECT customer_seen_at FROM session_presence WHERE session_id = $1")
        assert row["customer_seen_at"] == it.clock.at

    it = stage(on)
    on.run(play())


# --- the state machine


@attrs.define
class Party:
    """What the model knows of a party."""

    seen: dt.datetime
    since: dt.datetime | None = None  # of the open absence


@attrs.define
class Model:
    """The rule in a few lines."""

    parties: dict[str, Party]
    able: dt.datetime
    ends: dt.datetime
    events: list[tuple[str, str, str, dt.datetime | None]] = attrs.field(factory=list)

    def silent_since(self, party: str) -> dt.datetime:
        """Return from when a party's silence counts."""
        seen = self.parties[party].seen
        return min(max(seen, self.able), seen + EXCUSE * SECOND)

    def sweep(self, now: dt.datetime) -> None:
        """Do what the sweep does."""
        for name, party in self.parties.items():
            if party.since is not None and party.seen > party.since:
                self.events.append((other(name), "peer_returned", name, None))
                if name == "mitra" and now < self.ends:
                    self.ends += party.seen - party.since
                party.since = None
        for name, party in self.parties.items():
            if party.since is None and now < self.ends and self.silent_since(name) + AFTER * SECOND <= now:
                party.since = self.silent_since(name)
                self.events.append((other(name), "peer_absent", name, party.since))


def other(party: str) -> str:
    """Return the other party."""
    return "mitra" if party == "customer" else "customer"


STEPS = st.one_of(
    st.tuples(st.just("pass"), st.integers(1, 70)),
    st.tuples(st.just("sign"), st.sampled_from([*PARTIES])),
    st.tuples(st.just("sweep"), st.just(0)),
    st.tuples(st.just("restart"), st.just(0)),
)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=5, max_size=40))
def test_any_sequence_of_signs_silences_and_restarts_equals_the_model(
    on: Harness, steps: list[tuple[str, Any]]
) -> None:
    async def play() -> None:
        await it.sign(*PARTIES)
        start = it.clock.at
        parties = {name: Party(start) for name in PARTIES}
        model = Model(parties, start - dt.timedelta(days=1), await it.expires_at())
        for step, value in steps:
            if step == "pass":
                it.pass_(value)
            elif step == "sign":
                await it.sign(value)
                parties[value].seen = it.clock.at
            elif step == "restart":
                await it.restart_processes()
                model.able = it.clock.at
            else:
                await it.sweep()
                model.sweep(it.clock.at)
                assert sorted(await it.events(), key=str) == sorted(model.events, key=str)
                assert await it.expires_at() == model.ends
                still = {row[0] for row in await it.absences() if row[3] is None}
                assert still == {name for name, party in parties.items() if party.since is not None}

    with rows(on.runtime, fair_clock=True):
        it = on.run(a_stage(on, Clock(anchor=dt.datetime.now(dt.UTC), scale=1.0)))
        on.run(play())
