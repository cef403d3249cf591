"""Credits of session time: given once, never twice for the same moment, and reported to both parties."""

import asyncio
import datetime as dt
import json
from typing import Any

from core.base import ids
from core.sessions import rules
from core.sessions import store as sessions
from core.sessions import timers as session_timers
from core.sessions.clock import time_credits
from core.sessions.rules import CreditReason
from tests.flows.chats import Chat, a_chat
from tests.flows.conftest import WAITING, Harness

SECOND = dt.timedelta(seconds=1)
SHIFT = """UPDATE chat_sessions SET paired_at = paired_at - $2::interval, expires_at = expires_at - $2::interval,
  warn_at = warn_at - $2::interval WHERE id = $1"""
ROW = "SELECT status, expires_at, warn_at, grace_ends_at FROM chat_sessions WHERE id = $1"
EVENTS = (
    "SELECT recipient_type, payload::text FROM deliveries WHERE session_id = $1 AND event = 'session_clock_adjusted'"
)


async def aged(chat: Chat, *, left: float) -> Any:
    """Let a session have this many seconds of its paid time left; return its row."""
    row = await chat.row(ROW)
    back = row["expires_at"] - chat.harness.runtime.now() - left * SECOND
    await chat.harness.runtime.db.fetch(SHIFT, chat.id, back)
    return await chat.row(ROW)


async def give(
    chat: Chat,
    began: float,
    ended: float,
    *,
    outage: str | None = None,
    reason: str = "realtime",
    now: dt.datetime | None = None,
) -> int:
    """Credit a session with the time between two moments, in seconds before `now`; return the milliseconds."""
    now = now or chat.harness.runtime.now()
    async with chat.harness.runtime.transaction() as tx:
        given = await time_credits.give(
            tx,
            [chat.id],
            reason=CreditReason(reason),
            began_at=now - began * SECOND,
            ended_at=now - ended * SECOND,
            outage_id=None if reason == "mitra_absent" else outage or ids.new_id(),
        )
    return sum(credit.milliseconds for credit in given)


def test_credit_is_given_once_for_an_outage_and_reported_to_both_parties(harness: Harness) -> None:
    async def play() -> None:
        chat, outage = await a_chat(harness), ids.new_id()
        before = await aged(chat, left=400)
        assert await give(chat, 40, 10, outage=outage) == 30_000
        assert await give(chat, 40, 10, outage=outage) == 0
        after = await chat.row(ROW)
        assert after["expires_at"] - before["expires_at"] == 30 * SECOND
        assert after["warn_at"] == after["expires_at"] - rules.WARNING
        sent = await harness.runtime.db.fetch(EVENTS, chat.id)
        assert sorted(row["recipient_type"] for row in sent) == ["customer", "mitra"]
        for row in sent:
            frame = json.loads(row["payload"])
            assert (frame["added_seconds"], frame["reason"], frame["session"]["id"]) == (30, "realtime", chat.id)
            assert dt.datetime.fromisoformat(frame["session"]["expires_at"]) == after["expires_at"]

    harness.run(play())


def test_overlapping_credits_give_each_moment_once(harness: Harness) -> None:
    async def play() -> None:
        chat = await a_chat(harness)
        before = await aged(chat, left=400)
        now = harness.runtime.now()
        assert await give(chat, 60, 30, now=now) == 30_000
        assert await give(chat, 40, 10, reason="database", now=now) == 20_000
        assert await give(chat, 70, 5, reason="mitra_absent", now=now) == 15_000
        after = await chat.row(ROW)
        assert after["expires_at"] - before["expires_at"] == 65 * SECOND

    harness.run(play())


def test_overlapping_credits_that_wait_for_the_same_lock_give_each_moment_once(harness: Harness) -> None:
    async def play() -> None:
        chat = await a_chat(harness)
        before, now = await aged(chat, left=400), harness.runtime.now()
        async with asyncio.TaskGroup() as group, harness.runtime.transaction() as tx:
            await sessions.lock(tx, chat.id)
            for reason in ("realtime", "database"):
                group.create_task(give(chat, 60, 30, reason=reason, now=now))
            await harness.until(WAITING, 2)
        after = await chat.row(ROW)
        assert after["expires_at"] - before["expires_at"] == 30 * SECOND

    harness.run(play())


def test_session_that_expired_during_the_lost_time_is_active_again(harness: Harness) -> None:
    async def play() -> None:
        chat = await a_chat(harness)
        await aged(chat, left=-20)
        await session_timers.expire(harness.runtime)
        assert (await chat.row(ROW))["status"] == "expired"
        assert await give(chat, 50, 10) == 40_000
        after = await chat.row(ROW)
        assert (after["status"], after["grace_ends_at"], after["warn_at"]) == ("active", None, None)
        assert await give(chat, 200, 190) == 10_000

    harness.run(play())


def test_session_whose_paid_time_was_over_or_that_is_closing_gets_none(harness: Harness) -> None:
    async def play() -> None:
        over, closing = await a_chat(harness), await a_chat(harness)
        await aged(over, left=-60)
        await aged(closing, left=300)
        await harness.runtime.db.fetch(
            "UPDATE chat_sessions SET status = 'closing', ended_by = 'customer', ended_at = now(),"
            " grace_ends_at = now() + interval '5 min', warn_at = NULL WHERE id = $1",
            closing.id,
        )
        assert await give(over, 50, 10) == 0
        assert await give(closing, 50, 10) == 0

    harness.run(play())
