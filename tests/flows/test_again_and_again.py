"""Work that is repeated all the time: its cost depends on what is open, it takes locks in one order, and it misses
nothing.
"""

import asyncio
import datetime as dt
from typing import Any

import pytest

from core.accounts.operators import lockout
from core.accounts.operators import sign_in as operator_sign_in
from core.base import ids
from core.base.actor import Actor
from core.sessions import unacknowledged
from core.sessions.messages import send as message_send
from core.sessions.messages.rules import ReadMarkers
from core.sessions.unacknowledged import CLAIM, WHICH
from core.storage import locks
from core.storage.locks import AdvisoryLock
from tests.flows.chats import Chat, a_chat
from tests.flows.conftest import Harness

ACK_S = 5.0


@pytest.fixture
def chat(harness: Harness) -> Chat:
    """Yield a chat; no other chat is open."""
    harness.run(harness.clear())
    return harness.run(a_chat(harness))


async def _unacknowledged(harness: Harness, *, now: dt.datetime) -> set[str]:
    """Return the users with unacknowledged messages, as the service sees it at a time."""
    is_any = await unacknowledged.is_any(harness.runtime.db, now=now, real_seconds=ACK_S, scale=1)
    async with harness.runtime.transaction() as tx:
        tx.now = now
        found = await unacknowledged.claim(tx, real_seconds=ACK_S, scale=1, limit=200)
    assert is_any == bool(found)
    return {one.user_id for one in found}


def test_unacknowledged_messages_of_the_other_party_are_reported_once(chat: Chat) -> None:
    harness, hers, his = chat.harness, chat.customer, chat.mitra
    began = harness.runtime.now()

    def say(sender: Actor) -> None:
        harness.run(chat.commit(chat.draft(sender)))

    def unacknowledged(now: dt.datetime | None = None) -> set[str]:
        """Look at a time, or in ten seconds."""
        later = harness.runtime.now() + dt.timedelta(seconds=10)
        return harness.run(_unacknowledged(harness, now=now or later))

    for _ in range(3):
        say(his)
    assert unacknowledged(began + dt.timedelta(seconds=ACK_S - 0.1)) == set()
    assert unacknowledged() == {hers.user_id}
    assert unacknowledged() == set()
    harness.run(chat.commit(mark=ReadMarkers(customer_delivered=3)))
    for _ in range(3):
        say(hers)  # the user's own message, which lies behind the marker, is not an unacknowledged one
    assert unacknowledged() == {his.user_id}
    assert unacknowledged() == set()
    say(his)
    say(hers)  # nor does it hide earlier messages
    assert unacknowledged() == {hers.user_id}
    row = harness.run(chat.row("SELECT customer_sent_seq, mitra_sent_seq, last_seq FROM chat_sessions WHERE id = $1"))
    assert tuple(row) == (8, 7, 8)


def test_one_process_looks_for_unacknowledged_messages_at_a_time(chat: Chat) -> None:
    harness, runtime = chat.harness, chat.harness.runtime
    harness.run(chat.commit(chat.draft(chat.mitra)))
    now = runtime.now() + dt.timedelta(minutes=1)

    async def play() -> None:
        async with runtime.transaction() as tx:
            assert await locks.try_hold(tx, AdvisoryLock.CHAT_PUSHES)
            assert not await unacknowledged.is_any(runtime.db, now=now, real_seconds=ACK_S, scale=1)
        assert await unacknowledged.is_any(runtime.db, now=now, real_seconds=ACK_S, scale=1)

    harness.run(play())


def test_own_messages_are_not_scanned_when_pushes_are_planned(chat: Chat) -> None:
    harness = chat.harness
    harness.run(chat.commit(*[chat.draft(chat.customer) for _ in range(500)]))
    harness.run(chat.commit(mark=ReadMarkers(mitra_delivered=500)))

    async def look() -> str:
        sql = CLAIM.format(side="customer", other="mitra", which=WHICH[0])
        explain = f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) {sql}"
        rows = await harness.runtime.db.fetch(explain, harness.runtime.now(), 200)
        return "\n".join(row[0] for row in rows)

    plan = harness.run(look())
    reads = [line for line in plan.splitlines() if "chat_messages" in line]
    assert reads
    assert all("never executed" in line for line in reads), plan


def test_concurrent_status_syncs_of_the_same_sessions_do_not_deadlock(chat: Chat) -> None:
    harness, runtime = chat.harness, chat.harness.runtime
    other = harness.run(a_chat(harness))
    low, high = sorted((chat, other), key=lambda one: one.id)
    for one in (low, high):
        harness.run(one.commit(*[one.draft(one.customer) for _ in range(3)]))
        harness.run(one.commit(mark=ReadMarkers(mitra_delivered=3, mitra_read=2)))

    waiting = "SELECT count(*)::int FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%chat_fill%'"

    async def until_waiting(count: int) -> None:
        async with asyncio.timeout(20):
            while True:
                if await runtime.db.fetchval(waiting) >= count:
                    return
                await asyncio.sleep(0.01)

    async def play() -> None:
        async with runtime.db.pool.acquire() as holder, asyncio.TaskGroup() as group, holder.transaction():
            await holder.fetch("SELECT 1 FROM chat_messages WHERE session_id = $1 FOR UPDATE", high.id)
            for n, order in enumerate(((high, low), (low, high)), start=1):
                group.create_task(message_send.sync_statuses(runtime, {one.id: 0 for one in order}))
                await until_waiting(n)

    harness.run(play())
    for one in (low, high):
        assert [row["status"] for row in harness.run(one.log())] == ["read", "read", "delivered"]


def test_status_sync_skips_final_messages_and_the_readers_own(chat: Chat) -> None:
    harness = chat.harness
    drafts = [chat.draft(sender) for sender in (chat.customer, chat.mitra) * 3]
    harness.run(chat.commit(*drafts))
    harness.run(chat.commit(mark=ReadMarkers(customer_delivered=6, customer_read=2, mitra_delivered=3)))
    harness.run(message_send.sync_statuses(harness.runtime, {chat.id: 1}))
    assert [row["status"] for row in harness.run(chat.log())] == ["sent", "read", "delivered", "delivered", "sent", "delivered"]  # fmt: skip
    harness.run(message_send.sync_statuses(harness.runtime, {chat.id: 0}))
    harness.run(chat.commit(mark=ReadMarkers(customer_read=6, mitra_delivered=6, mitra_read=6)))
    before = harness.run(chat.log())
    harness.run(message_send.sync_statuses(harness.runtime, {chat.id: 0}))
    after = harness.run(chat.log())
    assert {row["status"] for row in after} == {"read"}
    assert all(b["delivered_at"] in (None, a["delivered_at"]) for a, b in zip(after, before, strict=True))


def test_config_change_committed_with_an_older_timestamp_is_noticed(harness: Harness) -> None:
    runtime = harness.runtime
    set_to = """UPDATE app_config SET value = jsonb_build_object('value', $1::int), updated_at = updated_at - interval '1 hour'
                WHERE key = 'pairing_blast_timeout_seconds'"""
    before = runtime.config.number("pairing_blast_timeout_seconds")
    try:
        harness.run(runtime.changes.look())
        version: Any = runtime.config.version
        harness.run(runtime.db.fetch(set_to, before + 7))
        harness.run(runtime.changes.look())
        assert runtime.config.number("pairing_blast_timeout_seconds") == before + 7
        assert runtime.config.version != version
    finally:
        harness.run(runtime.db.fetch(set_to, before))
        harness.run(runtime.changes.look())
    assert (runtime.config.number("pairing_blast_timeout_seconds"), runtime.config.version) == (before, version)


FLOODS = (
    """INSERT INTO unknown_operator_logins (email_hash, failed_login_count, updated_at)
       SELECT 'flood ' || n, 1, $1 FROM generate_series(1, $2::int) AS n""",
    """INSERT INTO operator_sign_in_addresses (id, email_hash, failed_login_count, updated_at)
       SELECT 'flood ' || n, 'flood ' || n, 1, $1 FROM generate_series(1, $2::int) AS n""",
)
KEPT = """SELECT count(*)::int AS n FROM unknown_operator_logins
  UNION ALL SELECT count(*)::int FROM operator_sign_in_addresses WHERE signed_in_at IS NULL"""


def test_purge_of_sign_in_attempts_keeps_recent_and_locked_ones(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_sign_in, "KEEP_MOST", 1_000)
    runtime = harness.runtime
    names = {name: f"{name}-{ids.new_id()}@example.test" for name in ("old", "new", "locked")}
    long_ago = runtime.now() - operator_sign_in.KEEP_ATTEMPTS - dt.timedelta(days=1)

    async def tried(email: str, at: dt.datetime, lockout_until: dt.datetime | None) -> None:
        async with runtime.transaction() as tx:
            tx.now = at
            attempt = await lockout._lock_counts(tx, email=email, address="203.0.113.9")
            count = lockout.Count(failed=3, lockout_until=lockout_until)
            await lockout._write_counts(tx, attempt, here=count, everywhere=count, signed_in=False)

    async def counts() -> dict[str, tuple[int, int]]:
        found = {}
        for name, email in names.items():
            attempt = await lockout._read_counts(runtime.db, email=email, address="203.0.113.9")
            found[name] = attempt.here.failed, attempt.everywhere.failed
        return found

    harness.run(tried(names["old"], long_ago, long_ago + dt.timedelta(minutes=15)))
    harness.run(tried(names["new"], runtime.now(), None))
    harness.run(tried(names["locked"], long_ago, runtime.now() + dt.timedelta(minutes=1)))
    harness.run(operator_sign_in.purge_attempts(runtime))
    assert harness.run(counts()) == {"old": (0, 0), "new": (3, 3), "locked": (3, 3)}

    # Above a number of rows the oldest go, but locked ones last.
    async def flood() -> None:
        for fill in FLOODS:
            await runtime.db.fetch(fill, runtime.now() + dt.timedelta(seconds=1), operator_sign_in.KEEP_MOST - 1)

    async def kept() -> list[int]:
        return [row["n"] for row in await runtime.db.fetch(KEPT)]

    harness.run(flood())
    try:
        harness.run(operator_sign_in.purge_attempts(runtime))
        assert harness.run(counts()) == {"old": (0, 0), "new": (0, 0), "locked": (3, 3)}
        assert harness.run(kept()) == [operator_sign_in.KEEP_MOST] * 2
    finally:
        for table in ("unknown_operator_logins", "operator_sign_in_addresses"):
            harness.run(runtime.db.fetch(f"DELETE FROM {table} WHERE email_hash LIKE 'flood %'"))
