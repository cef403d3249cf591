"""Very large numbers of messages, sessions or requests do not make other work wait."""

import asyncio

import pytest

from core.app.reactions import open_runtime, react
from core.base.actor import Actor
from core.base.errors import NotFound
from core.desk.ledger.audit import audit_for_operator
from core.payments import sweeps as payment_sweeps
from core.sessions import end as end_session
from core.sessions import timers as session_timers
from core.sessions.messages import send as message_send
from core.sessions.messages.statuses import VERY_LONG_CHAT
from core.sessions.messages.store import SYNC_AT_ONCE
from tests.flows.chats import a_chat
from tests.flows.conftest import WAITING, Harness
from tests.stack import within

pytestmark = pytest.mark.slow

MESSAGES = """INSERT INTO chat_messages (id, session_id, seq, sender_type, sender_id, client_message_id, content, created_at)
  SELECT gen_random_uuid(), $1, n, 'customer', $2, gen_random_uuid(), 'hello', now() FROM generate_series(1, $3::int) n"""
# Selects the transaction that wrote each message last.
WRITES = "SELECT xmin::text, count(*)::int AS messages FROM chat_messages WHERE session_id = ANY($1) GROUP BY 1"


async def _over(harness: Harness, heard: int) -> tuple[Actor, Actor, str]:
    """Create a chat whose grace period is over, with `heard` customer messages that are all delivered, none of them
    marked.
    """
    chat = await a_chat(harness)
    db = harness.runtime.db
    await db.fetch(MESSAGES, chat.id, chat.customer.user_id, heard)
    await db.fetch(
        """UPDATE chat_sessions SET last_seq = $2, customer_sent_seq = $2, mitra_delivered_seq = $2, mitra_read_seq = $2,
             mitra_delivered_at = now(), mitra_read_at = now(), status = 'expired', expires_at = now() - interval '10 minutes',
             grace_ends_at = now() - interval '5 minutes' WHERE id = $1""",
        chat.id, heard,
    )  # fmt: skip
    return chat.customer, chat.mitra, chat.id


async def _writes(harness: Harness, *session_ids: str) -> list[int]:
    """Return how many messages each transaction wrote last; all messages are read."""
    unread = (
        "SELECT count(*)::int FROM chat_messages WHERE session_id = ANY($1) AND (status <> 'read' OR read_at IS NULL)"
    )
    assert await harness.runtime.db.fetchval(unread, list(session_ids)) == 0
    return [row["messages"] for row in await harness.runtime.db.fetch(WRITES, list(session_ids))]


def test_very_long_chat_is_completed_without_delaying_others(clean_harness: Harness) -> None:
    async def play() -> None:
        *_, flood = await _over(clean_harness, VERY_LONG_CHAT + SYNC_AT_ONCE // 2)
        *_, still = await _over(clean_harness, 0)
        status = "SELECT status FROM chat_sessions WHERE id = $1"
        await session_timers.complete(clean_harness.runtime)
        assert await clean_harness.runtime.db.fetchval(status, still) == "completed"
        async with asyncio.timeout(20):
            while await clean_harness.runtime.db.fetchval(status, flood) != "completed":
                await session_timers.complete(clean_harness.runtime)
        assert max(await _writes(clean_harness, flood)) <= SYNC_AT_ONCE
        assert clean_harness.runtime.synced_up_to == {}

    clean_harness.run(play())


def test_status_sync_of_many_messages_from_one_side_runs_in_bounded_portions(clean_harness: Harness) -> None:
    async def play() -> None:
        *_, flood = await _over(clean_harness, SYNC_AT_ONCE * 5 // 2)
        assert await message_send.sync_statuses(clean_harness.runtime, {flood: 0}) == {}
        assert max(await _writes(clean_harness, flood)) <= SYNC_AT_ONCE

    clean_harness.run(play())


def test_completion_of_many_chats_writes_a_bounded_number_of_messages_at_once(clean_harness: Harness) -> None:
    async def play() -> None:
        over = [(await _over(clean_harness, VERY_LONG_CHAT * 2 // 5))[2] for _ in range(5)]
        assert [await session_timers.complete(clean_harness.runtime) for _ in range(4)] == [2, 2, 1, 0]
        assert max(await _writes(clean_harness, *over)) <= VERY_LONG_CHAT

    clean_harness.run(play())


def test_second_goodbye_of_a_very_long_chat_completes_it(clean_harness: Harness) -> None:
    async def play() -> None:
        customer, mitra, session_id = await _over(clean_harness, VERY_LONG_CHAT + 1)
        stranger = await clean_harness.customer()
        later = "UPDATE chat_sessions SET expires_at = now() - interval '1 minute', grace_ends_at = now() + interval '4 minutes'"
        await clean_harness.runtime.db.fetch(later)
        await end_session.say_goodbye(clean_harness.runtime, customer, session_id=session_id, message="Bye")
        with pytest.raises(NotFound):
            await end_session.say_goodbye(clean_harness.runtime, stranger, session_id=session_id, message="Bye")
        touched = "SELECT count(*)::int FROM chat_messages WHERE session_id = $1 AND status <> 'sent'"
        assert await clean_harness.runtime.db.fetchval(touched, session_id) == 0
        view = await end_session.say_goodbye(clean_harness.runtime, mitra, session_id=session_id, message="Bye")
        assert view.status == "completed"
        assert max(await _writes(clean_harness, session_id)) <= SYNC_AT_ONCE

    clean_harness.run(play())


def test_concurrent_audits_leave_connections_for_other_calls(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime = clean_harness.runtime
        async with runtime.transaction() as tx:
            await tx.fetch("LOCK TABLE chat_sessions IN ACCESS EXCLUSIVE MODE")  # no audit rule can finish
            first = [asyncio.create_task(audit_for_operator(runtime)) for _ in range(5)]
            await clean_harness.until(WAITING, 1)
            later = [
                asyncio.create_task(audit_for_operator(runtime)) for _ in range(runtime.db.pool.get_max_size() + 4)
            ]
            await asyncio.sleep(0)
            assert await runtime.db.fetchval(WAITING) == 1
        seen = [await one for one in (*first, *later)]
        assert (
            len({id(books) for books in seen}) == 2
        )  # the one of the first callers, and one that began after the others had called
        assert all(books.violations == [] for books in seen)

    clean_harness.run(play())


def test_many_payments_found_at_once_leave_connections_for_other_calls(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime = await open_runtime(clean_harness.runtime.settings, react=react)
        paid = [
            await clean_harness.paid(await clean_harness.customer()) for _ in range(runtime.db.pool.get_max_size() + 4)
        ]
        await runtime.db.fetch("UPDATE payment_requests SET confirmed_at = confirmed_at - interval '1 minute'")
        try:
            async with runtime.transaction() as tx:
                await tx.fetch("LOCK TABLE chat_sessions IN SHARE ROW EXCLUSIVE MODE")  # no search can begin
                await payment_sweeps.announce_again(runtime)
                await clean_harness.until(WAITING, 1)
                async with asyncio.timeout(within(1)):
                    assert await runtime.db.fetchval("SELECT 1") == 1
            await clean_harness.until("SELECT count(*)::int FROM chat_sessions", len(paid))
        finally:
            await runtime.close()

    clean_harness.run(play())
