"""Presence checks: which silent mitras are asked by push and when, by one process or many, and what answers a check."""

import asyncio
import datetime as dt
import itertools
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.accounts.mitras import store as mitras
from core.accounts.mitras.rules import HeartbeatChannel
from core.base import ids
from core.base.actor import Actor
from core.cluster.leases import store as leases
from core.desk import timed_work
from core.pairing import check_presence, presence
from core.pairing import check_presence as checks
from core.pairing.check_presence import ANSWER_S, AT_ONCE, PACE_S, PAUSE_S, CheckPolicy, due_at
from core.telemetry.metrics import REGISTRY
from tests.flows.conftest import Harness, rows
from tests.flows.steady_processes import begin_steady
from tests.tiers import examples

CADENCE_S, STALE_S = 30, 45
SILENCE_S = (CADENCE_S + STALE_S) / 2
POLICY = CheckPolicy(silence_s=SILENCE_S, stale_after_s=STALE_S, require_ping=True)
REACHED = "sesi_limited_total", {"limit": "presence_checks"}
# Processes that have run for a day and will run for a day.
DEVICE = """INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, created_at, last_used_at, expires_at, push_token,
    push_token_at)
  VALUES ($1::uuid, 'mitra', $2::uuid, $1::uuid::text, now(), now(), now() + interval '30 days', $1::uuid::text, now())"""
SILENT = "UPDATE mitra_online_status SET last_heartbeat_at = $2, heartbeat_channel = 'rest' WHERE mitra_id = $1"
STATE = "SELECT checked_at, check_ends_at, reachable_at, last_heartbeat_at FROM mitra_online_status WHERE mitra_id = $1"
PUSHES = """SELECT a.user_id::text, p.content, p.urgent, extract(epoch FROM p.expires_real_at - p.due_real_at)::float AS ttl
  FROM pushes p JOIN auth_sessions a ON a.id = p.auth_session_id ORDER BY p.due_real_at"""


@pytest.fixture
def steady(clean_harness: Harness) -> Iterator[Harness]:
    """Yield an empty database whose processes could take heartbeats all day, with `reachability_probe` on."""

    async def begin() -> None:
        await clean_harness.empty("pushes")
        async with clean_harness.runtime.transaction() as tx:
            await begin_steady(tx)
            await tx.execute("UPDATE cluster_leases SET until_real_at = NULL")

    clean_harness.run(begin())
    with rows(clean_harness.runtime, reachability_probe=True):
        yield clean_harness
    clean_harness.run(clean_harness.empty("service_processes", "outages", "pushes"))


async def silent_mitra(harness: Harness, seconds: float, *, devices: int = 1) -> Actor:
    """Return an online mitra who has been silent for some seconds, with devices that take pushes."""
    mitra = await harness.mitra()
    await presence.go_online(harness.runtime, mitra)
    for _ in range(devices):
        await harness.runtime.db.fetch(DEVICE, ids.new_id(), mitra.user_id)
    at = harness.runtime.now() - dt.timedelta(seconds=seconds)
    await harness.runtime.db.fetch(SILENT, mitra.user_id, at)
    return mitra


async def state(harness: Harness, mitra: Actor) -> Any:
    """Return the columns of a mitra's presence checks."""
    return await harness.runtime.db.fetchrow(STATE, mitra.user_id)


async def pushed(harness: Harness) -> list[Any]:
    """Return the planned pushes."""
    return await harness.runtime.db.fetch(PUSHES)


async def next_check(harness: Harness) -> dt.datetime | None:
    """Return when the jobs process will look for silent mitras."""
    return (await timed_work.upcoming(harness.runtime, within_s=1)).moments.get("presence_check")


def test_silent_mitra_is_asked_once_by_a_silent_push_to_each_device(steady: Harness) -> None:
    async def play() -> None:
        mitra = await silent_mitra(steady, SILENCE_S + 1, devices=2)
        silent_since = (await state(steady, mitra))["last_heartbeat_at"]
        assert await next_check(steady) == silent_since + dt.timedelta(seconds=SILENCE_S)
        for _ in range(3):
            await check_presence.ask_silent(steady.runtime)
        left_s = STALE_S - (steady.runtime.now() - silent_since).total_seconds()
        found = await pushed(steady)
        assert [row["user_id"] for row in found] == [mitra.user_id] * 2
        for row in found:
            assert set(row["content"]) == {"action", "event", "event_id", "lifetime_seconds"}
            assert row["ttl"] <= int(row["content"]["lifetime_seconds"]) < row["ttl"] + 1
            assert row["content"]["action"] == row["content"]["event"] == "presence_check"
            assert not row["urgent"]
            assert left_s < row["ttl"] <= STALE_S - SILENCE_S - 1

    steady.run(play())


@pytest.mark.parametrize("case", ["recent", "offline", "row off"])
def test_mitra_who_sent_something_or_is_offline_is_not_asked(steady: Harness, case: str) -> None:
    async def play() -> None:
        mitra = await silent_mitra(steady, SILENCE_S - 5 if case == "recent" else SILENCE_S + 1)
        if case == "offline":
            await presence.go_offline(steady.runtime, mitra_id=mitra.user_id)
        with rows(steady.runtime, reachability_probe=case != "row off"):
            await check_presence.ask_silent(steady.runtime)
            due = await next_check(steady)
        assert await pushed(steady) == []
        assert (await state(steady, mitra))["checked_at"] is None
        assert (due is None) == (case != "recent")

    steady.run(play())


@pytest.mark.parametrize(("seconds", "devices"), [(SILENCE_S + 1, 0), (STALE_S + 1, 1)])
def test_mitra_without_a_push_token_or_past_the_silence_is_passed_over(
    steady: Harness, seconds: float, devices: int
) -> None:
    async def play() -> None:
        mitra = await silent_mitra(steady, seconds, devices=devices)
        await check_presence.ask_silent(steady.runtime)
        assert await pushed(steady) == []
        due = await next_check(steady)
        assert due is not None  # not at once again
        assert (due - steady.runtime.now()).total_seconds() > PAUSE_S - 10
        await presence.heartbeat(steady.runtime, mitra, HeartbeatChannel.REST)
        assert (await state(steady, mitra))["reachable_at"] is None  # it answers nothing

    steady.run(play())


def test_unanswered_check_is_repeated_after_the_pause_if_heartbeats_are_not_required(steady: Harness) -> None:
    async def play() -> None:
        mitra = await silent_mitra(steady, 2 * PAUSE_S)
        with rows(steady.runtime, require_mitra_ping=False):
            await check_presence.ask_silent(steady.runtime)
            for seconds, count in ((PAUSE_S - 5, 1), (PAUSE_S + 1, 2)):
                await steady.runtime.db.fetch(
                    "UPDATE mitra_online_status SET checked_at = $2 WHERE mitra_id = $1",
                    mitra.user_id, steady.runtime.now() - dt.timedelta(seconds=seconds),
                )  # fmt: skip
                await steady.runtime.db.fetch("UPDATE cluster_leases SET until_real_at = NULL")  # it lasts for PACE_S
                await check_presence.ask_silent(steady.runtime)
                assert len(await pushed(steady)) == count
        assert (await pushed(steady))[0]["ttl"] == pytest.approx(ANSWER_S, abs=1)

    steady.run(play())


@pytest.mark.parametrize("channel", [HeartbeatChannel.REST, HeartbeatChannel.SOCKET])
def test_first_heartbeat_after_a_check_proves_that_the_phone_can_be_reached(
    steady: Harness, channel: HeartbeatChannel
) -> None:
    async def beat(mitra: Actor) -> None:
        if channel is HeartbeatChannel.REST:
            is_sign = await presence.heartbeat(steady.runtime, mitra, channel)
            assert not is_sign  # a check may have caused it, on this phone or another one
        else:
            await presence.heartbeats(steady.runtime, [mitra.user_id])

    async def play() -> None:
        mitra = await silent_mitra(steady, SILENCE_S + 1)
        await check_presence.ask_silent(steady.runtime)
        await beat(mitra)
        answered = await state(steady, mitra)
        assert answered["reachable_at"] == answered["last_heartbeat_at"] > answered["checked_at"]
        await beat(mitra)
        after = await state(steady, mitra)
        assert after["reachable_at"] == answered["reachable_at"] < after["last_heartbeat_at"]
        due = await next_check(steady)
        assert due is not None  # the answer has reset the pause
        assert (due - after["last_heartbeat_at"]).total_seconds() == pytest.approx(SILENCE_S)
        await steady.runtime.db.fetch("UPDATE mitra_online_status SET check_ends_at = checked_at")
        assert await presence.heartbeat(steady.runtime, mitra, HeartbeatChannel.REST)  # the time for answers is over

    steady.run(play())


def test_heartbeat_after_the_time_of_a_check_is_no_answer(steady: Harness) -> None:
    async def play() -> None:
        mitra = await silent_mitra(steady, SILENCE_S + 1)
        await check_presence.ask_silent(steady.runtime)
        await steady.runtime.db.fetch("UPDATE mitra_online_status SET check_ends_at = checked_at")
        await presence.heartbeat(steady.runtime, mitra, HeartbeatChannel.REST)
        found = await state(steady, mitra)
        assert found["reachable_at"] is None
        assert found["last_heartbeat_at"] > found["checked_at"]

    steady.run(play())


def test_silence_that_an_outage_excuses_is_not_checked_until_it_has_lasted_again(steady: Harness) -> None:
    async def play() -> None:
        for _ in range(3):
            await silent_mitra(steady, 10 * STALE_S)
        since = await steady.runtime.db.fetchval("UPDATE service_processes SET since_at = now() RETURNING since_at")
        await check_presence.ask_silent(steady.runtime)
        assert await pushed(steady) == []
        due = await next_check(steady)
        assert due is not None
        assert (due - since).total_seconds() == pytest.approx(SILENCE_S)

    steady.run(play())


def test_check_before_an_outage_is_repeated_after_the_next_silence(steady: Harness) -> None:
    """The phone may have answered while the api or the database was away."""

    async def play() -> None:
        runtime = steady.runtime
        mitra = await silent_mitra(steady, 3 * STALE_S)
        restarted = runtime.now() - dt.timedelta(seconds=SILENCE_S - 5)
        await runtime.db.fetch("UPDATE service_processes SET since_at = $1", restarted)
        await runtime.db.fetch(
            "UPDATE mitra_online_status SET checked_at = $2 WHERE mitra_id = $1",
            mitra.user_id, restarted - dt.timedelta(seconds=10),
        )  # fmt: skip
        assert await next_check(steady) == restarted + dt.timedelta(seconds=SILENCE_S)
        restarted -= dt.timedelta(seconds=6)
        await runtime.db.fetch("UPDATE service_processes SET since_at = $1", restarted)
        await check_presence.ask_silent(runtime)
        assert len(await pushed(steady)) == 1
        due = await next_check(steady)
        assert due is not None  # this one is not answered, and no outage followed
        assert (due - runtime.now()).total_seconds() > PAUSE_S - 10

    steady.run(play())


# Notes the transaction and the end of each lease of the budget.
NOTE_LEASES = """CREATE TABLE noted_leases (xid xid8, ends_at timestamptz);
  CREATE FUNCTION note_lease() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO noted_leases VALUES (pg_current_xact_id(), NEW.until_real_at); RETURN NULL; END $$;
  CREATE TRIGGER note_lease AFTER UPDATE ON cluster_leases FOR EACH ROW
    WHEN (NEW.name = 'presence_checks') EXECUTE FUNCTION note_lease()"""
FORGET_LEASES = "DROP TRIGGER note_lease ON cluster_leases; DROP FUNCTION note_lease; DROP TABLE noted_leases"
BATCHES = """SELECT l.ends_at, count(p.id)::int AS asked
  FROM noted_leases AS l LEFT JOIN pushes AS p ON p.xmin = l.xid::xid GROUP BY l.xid, l.ends_at ORDER BY l.ends_at"""


def test_many_processes_ask_each_mitra_once_within_the_budget(steady: Harness) -> None:
    many = 6 * AT_ONCE

    async def keep_asking() -> None:
        while (due := await next_check(steady)) is not None and due <= steady.runtime.now():
            await check_presence.ask_silent(steady.runtime)

    async def play() -> None:
        db = steady.runtime.db
        asked = {(await silent_mitra(steady, 0)).user_id for _ in range(many)}
        # All at once: the first of them must not be past the silence before the last one is created.
        silent_since = steady.runtime.now() - dt.timedelta(seconds=SILENCE_S)
        await db.fetch("UPDATE mitra_online_status SET last_heartbeat_at = $1 WHERE is_online", silent_since)
        async with db.connection() as connection:
            await connection.execute(NOTE_LEASES)
        try:
            await asyncio.gather(*(keep_asking() for _ in range(6)))
            batches = await db.fetch(BATCHES)
        finally:
            async with db.connection() as connection:
                await connection.execute(FORGET_LEASES)
        assert sorted(row["user_id"] for row in await pushed(steady)) == sorted(asked)
        assert sum(row["asked"] for row in batches) == many
        assert max(row["asked"] for row in batches) <= AT_ONCE
        for one, following in itertools.pairwise(batches):
            assert (following["ends_at"] - one["ends_at"]).total_seconds() >= PACE_S

    steady.run(play())


@pytest.mark.parametrize(
    ("silent", "is_taken", "counted"), [(AT_ONCE - 1, False, 0), (AT_ONCE, False, 1), (AT_ONCE, True, 0)]
)
def test_budget_counts_as_reached_by_a_full_batch_only(
    steady: Harness, silent: int, is_taken: bool, counted: int
) -> None:
    async def play() -> None:
        for _ in range(silent):
            await silent_mitra(steady, SILENCE_S + 1)
        if is_taken:  # by another process, whose batch may have been small
            async with steady.runtime.transaction() as tx:
                await leases.ensure(tx, check_presence.LEASE)
                await leases.hold(tx, check_presence.LEASE, node=ids.new_id(), length_s=60)
        before = REGISTRY.get_sample_value(*REACHED) or 0
        await check_presence.ask_silent(steady.runtime)
        assert len(await pushed(steady)) == (0 if is_taken else silent)
        assert (REGISTRY.get_sample_value(*REACHED) or 0) - before == counted

    steady.run(play())


# -- any history against the rule in Python


@attrs.define
class Modelled:
    """A mitra, as the rule in Python sees them."""

    mitra_id: str
    has_device: bool
    heartbeat_at: dt.datetime
    checked_at: dt.datetime | None = None
    ends_at: dt.datetime | None = None
    reachable_at: dt.datetime | None = None

    def due(self) -> dt.datetime:
        """Return when the next check is due."""
        return due_at(
            silent_since=self.heartbeat_at,
            checked_at=self.checked_at,
            silence_s=SILENCE_S,
        )

    def check(self, now: dt.datetime, policy: CheckPolicy) -> str | None:
        """Check the mitra if it is due; return what became of it."""
        if self.due() > now:
            return None
        stale_at = self.heartbeat_at + dt.timedelta(seconds=policy.stale_after_s)
        late = policy.require_ping and stale_at <= now
        self.checked_at = now
        if late or not self.has_device:
            self.ends_at = None
            return "too_late" if late else "no_token"
        self.ends_at = stale_at if policy.require_ping else now + dt.timedelta(seconds=ANSWER_S)
        return "asked"

    def beat(self, now: dt.datetime) -> None:
        """Take a heartbeat."""
        is_unanswered = self.checked_at is not None and self.heartbeat_at < self.checked_at <= now
        if is_unanswered and self.ends_at is not None and now <= self.ends_at:
            self.reachable_at = now
        self.heartbeat_at = max(self.heartbeat_at, now)


SECONDS = st.sampled_from((1, 7.5, 8, 30, SILENCE_S, STALE_S, PAUSE_S - SILENCE_S, PAUSE_S))
HISTORY = st.lists(st.tuples(SECONDS, st.sets(st.integers(0, 2))), min_size=1, max_size=8)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=HISTORY, require_ping=st.booleans())
def test_any_history_of_heartbeats_is_checked_by_the_rule(
    steady: Harness, history: list[tuple[float, set[int]]], require_ping: bool
) -> None:
    policy = attrs.evolve(POLICY, require_ping=require_ping)

    async def play() -> None:
        await steady.runtime.db.fetch("UPDATE mitra_online_status SET is_online = false")
        now = steady.runtime.now()
        people = []
        for devices in (1, 1, 0):
            mitra = await silent_mitra(steady, 0, devices=devices)
            await steady.runtime.db.fetch(SILENT, mitra.user_id, now)
            people.append(Modelled(mitra.user_id, devices > 0, now))
        for seconds, beating in history:
            now += dt.timedelta(seconds=seconds)
            expected = {one.mitra_id: result for one in people if (result := one.check(now, policy)) is not None}
            async with steady.runtime.transaction() as tx:
                tx.now = now
                passed_over = await checks.pass_over(tx, policy)
                asked = await checks.claim(tx, policy)
                assert {one.mitra_id for one in asked} == {key for key, made in expected.items() if made == "asked"}
                assert sorted(passed_over) == sorted(made for made in expected.values() if made != "asked")
                for n in beating:
                    people[n].beat(now)
                await mitras.heartbeats(tx, [people[n].mitra_id for n in beating], HeartbeatChannel.REST)
            assert await checks.next_due(steady.runtime.db, policy, now=now) == min(one.due() for one in people)
            for one in people:
                found = await steady.runtime.db.fetchrow(STATE, one.mitra_id)
                assert tuple(found) == (one.checked_at, one.ends_at, one.reachable_at, one.heartbeat_at)

    steady.run(play())
