"""What the sweeps of core/privacy/retention.py delete and blank, and what they leave."""

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from core.accounts.customers import store as customers
from core.accounts.logins import devices as login_devices
from core.accounts.logins import sign_in_anonymous
from core.accounts.logins.otp import WINDOW
from core.base import ids
from core.base.actor import Actor, UserType
from core.base.field_types import Id
from core.desk import operator_work, setup
from core.desk.ledger.audit import audit
from core.pairing import request as payment_request
from core.privacy import retention
from core.runtime.container import Runtime
from core.security.refresh import RefreshInvalid
from core.sessions.messages import blank as blank_texts
from core.sessions.messages import chats
from core.sessions.reports import report as reports
from core.sessions.reports.rules import Reason
from core.storage.transaction import Tx
from tests.clock import HandClock
from tests.flows.chats import SECRET, Chat, completed_chat
from tests.flows.conftest import ADDRESS, WISH, Harness, rows

DAY, SECOND = dt.timedelta(days=1), dt.timedelta(seconds=1)
Sweep = Callable[[Runtime], Awaitable[None]]
OTP = """INSERT INTO otp_requests (id, phone, ip_address, user_type, channel, created_at, expires_at)
  SELECT x.id, '+6281234567890', '127.0.0.1', 'customer', 'sms', x.at, x.at + interval '5 minutes'
  FROM unnest($1::uuid[], $2::timestamptz[]) AS x (id, at)"""
AUTH = """INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, created_at, last_used_at, expires_at, revoked_at)
  VALUES ($1, 'customer', $2, $1::uuid::text, $3, $3, $4, $5)"""
END = "UPDATE chat_sessions SET ended_at = $2 WHERE id = $1"
RESOLVED = """UPDATE session_reports SET resolution = $2, note = $3, resolved_at = $4, resolved_by = $5 WHERE id = $1"""
EMPTY = "SELECT array_agg(id::text) FROM session_reports WHERE message IS NULL"
BLANKED = "SELECT array_agg(id::text ORDER BY id) FROM chat_sessions WHERE blanked_at IS NOT NULL"
LEFT = "SELECT coalesce(array_agg(id::text ORDER BY id), '{}') FROM "


async def twice(runtime: Runtime, sweep: Sweep) -> None:
    """Run a sweep as two jobs processes do at the same moment."""
    await asyncio.gather(sweep(runtime), sweep(runtime))


async def add_codes(runtime: Runtime, *moments: dt.datetime) -> list[str]:
    made = [ids.id_of(at, b"%d" % n) for n, at in enumerate(moments)]
    await runtime.db.fetch(OTP, made, list(moments))
    return made


async def add_device(
    runtime: Runtime, user_id: str, *, used: dt.datetime, expires: dt.datetime, revoked: dt.datetime | None = None
) -> str:
    made = ids.new_id()
    await runtime.db.fetch(AUTH, made, user_id, used, expires, revoked)
    return made


async def add_anonymous(runtime: Runtime, at: dt.datetime) -> Id:
    made = Id(ids.new_id())
    await runtime.db.fetch("INSERT INTO customers (id, created_at) VALUES ($1, $2)", made, at)
    return made


def test_sessions_are_blanked_when_their_end_is_older_than_the_retention(clean_harness: Harness) -> None:
    runtime = clean_harness.runtime

    async def play() -> None:
        old, young = await completed_chat(clean_harness), await completed_chat(clean_harness)
        await runtime.db.fetch(END, old.id, runtime.now() - 30 * DAY - SECOND)
        await runtime.db.fetch(END, young.id, runtime.now() - 30 * DAY + 60 * SECOND)
        await retention.blank_old_sessions(runtime)
        assert await runtime.db.fetchval(BLANKED) is None
        with rows(runtime, retention_messages_days=30):
            await twice(runtime, retention.blank_old_sessions)
        assert await runtime.db.fetchval(BLANKED) == [old.id]
        assert {row["content"] for row in await old.log()} == {""}
        assert {row["content"] for row in await young.log()} == {SECRET}
        for party in (old.customer, old.mitra):
            found = await chats.messages(runtime, party, old.id, after=None, before=None, limit=50)
            assert [(one.seq, one.content, one.blanked) for one in found] == [(n, "", True) for n in (1, 2, 3)]
            assert (await chats.session(runtime, party, old.id)).last_seq == 3

    clean_harness.run(play())


def test_texts_of_reports_are_removed_when_their_resolution_is_older_than_the_retention(clean_harness: Harness) -> None:
    runtime = clean_harness.runtime

    async def report(chat: Chat, party: Actor, *, resolved: dt.datetime | None) -> Id:
        """Store a report with a message, and if it is resolved with a note."""
        made = await reports.report(runtime, party, session_id=chat.id, reason=Reason.RUDE, message=SECRET)
        note, by = (None, None) if resolved is None else (SECRET, ids.new_id())
        await runtime.db.fetch(RESOLVED, made.id, resolved and "warned", note, resolved, by)
        return made.id

    async def play() -> None:
        chat, other = await completed_chat(clean_harness), await completed_chat(clean_harness)
        old = await report(chat, chat.customer, resolved=runtime.now() - 30 * DAY - SECOND)
        await report(chat, chat.mitra, resolved=runtime.now() - 30 * DAY + 60 * SECOND)
        await report(other, other.customer, resolved=None)
        await retention.blank_reports(runtime)
        assert await runtime.db.fetchval(EMPTY) is None  # 0: they stay
        with rows(runtime, retention_messages_days=30):
            await twice(runtime, retention.blank_reports)
        assert await runtime.db.fetchval(EMPTY) == [old]
        (row,) = await runtime.db.fetch("SELECT note, resolution, reason FROM session_reports WHERE id = $1", old)
        assert tuple(row) == (None, "warned", "rude")

    clean_harness.run(play())


def test_sweep_that_another_overtakes_blanks_what_that_one_may_have_passed_over(
    clean_harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at a session that another process marks at this moment locks it, and that process skips locked ones."""
    runtime = clean_harness.runtime

    async def play() -> None:
        chat = await completed_chat(clean_harness)
        await runtime.db.fetch(END, chat.id, runtime.now() - 2 * DAY)
        real = blank_texts.blank_due

        async def overtaken(tx: Tx, *, before: dt.datetime) -> list[str]:
            async with runtime.transaction() as other:
                await real(other, before=before)
            return await real(tx, before=before)

        monkeypatch.setattr(blank_texts, "blank_due", overtaken)
        with rows(runtime, retention_messages_days=1):
            await retention.blank_old_sessions(runtime)
        assert await runtime.db.fetchval(BLANKED) == [chat.id]
        assert {row["content"] for row in await chat.log()} == {""}

    clean_harness.run(play())


def test_blanking_goes_on_where_a_process_died_even_if_the_retention_was_turned_off(
    clean_harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = clean_harness.runtime
    monkeypatch.setattr(blank_texts, "SESSIONS_AT_ONCE", 2)
    monkeypatch.setattr(blank_texts, "MESSAGES_AT_ONCE", 2)
    statements = 0

    class Died(Exception):
        pass

    async def play() -> None:
        found = [await completed_chat(clean_harness) for _ in range(3)]
        for chat in found:
            await runtime.db.fetch(END, chat.id, runtime.now() - 2 * DAY)
        real = blank_texts.messages.blank

        async def dying(*args: Any, **values: Any) -> None:
            """Store the statement's work, then die before the commit on the third call."""
            nonlocal statements
            statements += 1
            await real(*args, **values)
            if statements == 3:
                raise Died

        with monkeypatch.context() as patch:
            patch.setattr(blank_texts.messages, "blank", dying)
            with rows(runtime, retention_messages_days=1), pytest.raises(Died):
                await retention.blank_old_sessions(runtime)
        assert len(await runtime.db.fetchval(BLANKED)) == 2
        assert await runtime.db.fetchval("SELECT count(*) FROM chat_messages WHERE content <> ''") > 3
        await retention.blank_old_sessions(runtime)
        assert await runtime.db.fetchval("SELECT count(*) FROM chat_messages WHERE content <> ''") == 3
        with rows(runtime, retention_messages_days=1):
            await retention.blank_old_sessions(runtime)
        assert await runtime.db.fetchval(BLANKED) == sorted(chat.id for chat in found)
        assert await runtime.db.fetchval("SELECT count(*) FROM chat_messages WHERE content <> ''") == 0

    clean_harness.run(play())


def test_codes_are_deleted_after_their_retention(clean_harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = clean_harness.runtime
    monkeypatch.setattr(retention, "AT_ONCE", 2)

    async def play() -> None:
        now = runtime.now()
        old = await add_codes(runtime, *(now - 30 * DAY - n * SECOND for n in range(1, 8)))
        kept = await add_codes(runtime, now - 30 * DAY + 60 * SECOND, now - SECOND)
        with rows(runtime, retention_otp_days=0):
            await retention.remove_codes(runtime)
        assert await runtime.db.fetchval(LEFT + "otp_requests") == sorted(old + kept)
        await twice(runtime, retention.remove_codes)
        await retention.remove_codes(runtime)
        assert await runtime.db.fetchval(LEFT + "otp_requests") == sorted(kept)

    clean_harness.run(play())


@pytest.mark.parametrize("days", [0, 30])
def test_codes_of_erased_users_are_deleted_after_the_hour_that_counts(clean_harness: Harness, days: int) -> None:
    runtime = clean_harness.runtime

    async def play() -> None:
        now = runtime.now()
        await runtime.db.fetch("DELETE FROM otp_requests")
        old, new, other = await add_codes(runtime, now - WINDOW - SECOND, now - WINDOW + 60 * SECOND, now - DAY)
        await runtime.db.fetch("UPDATE otp_requests SET phone = '#0123456789abcdef012' WHERE id = ANY($1)", [old, new])
        with rows(runtime, retention_otp_days=days):
            await twice(runtime, retention.remove_codes)
        assert await runtime.db.fetchval(LEFT + "otp_requests") == sorted([new, other])
        await runtime.db.fetch("DELETE FROM otp_requests")

    clean_harness.run(play())


def test_auth_sessions_are_deleted_long_after_their_end(
    clean_harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = clean_harness.runtime
    monkeypatch.setattr(retention, "AT_ONCE", 2)

    async def play() -> None:
        now, user = runtime.now(), (await clean_harness.customer()).user_id
        past, recent = now - 90 * DAY - SECOND, now - 90 * DAY + 60 * SECOND
        for n in range(3):
            await add_device(runtime, user, used=past - DAY, expires=past - n * SECOND)
            await add_device(runtime, user, used=past - DAY, expires=now + DAY, revoked=past)
        kept = [
            await add_device(runtime, user, used=past - DAY, expires=recent),
            await add_device(runtime, user, used=past - DAY, expires=now + DAY, revoked=recent),
            await add_device(runtime, user, used=past - DAY, expires=now + DAY),
        ]
        with rows(runtime, retention_ended_auth_sessions_days=0):
            await retention.remove_auth_sessions(runtime)
        assert await runtime.db.fetchval("SELECT count(*) FROM auth_sessions") == 9
        await twice(runtime, retention.remove_auth_sessions)
        await retention.remove_auth_sessions(runtime)
        assert await runtime.db.fetchval(LEFT + "auth_sessions") == sorted(kept)

    clean_harness.run(play())


def test_reuse_of_a_token_is_still_detected_while_its_auth_session_lives(empty_harness: Harness) -> None:
    """The tokens of an ended auth session are refused before and after it is deleted."""
    runtime = empty_harness.runtime
    clock = runtime.clock = HandClock(runtime.now())

    async def refresh(token: str) -> str:
        return (
            await login_devices.refresh_tokens(runtime, refresh_token=token, operators=False, ip_address=ADDRESS)
        ).tokens.refresh_token

    async def play() -> None:
        issued, _ = await sign_in_anonymous.sign_in_anonymously(runtime, device={}, ip_address=ADDRESS)
        first = issued.refresh_token
        second = await refresh(first)
        for _ in range(5):
            clock.advance((20 * DAY).total_seconds())
            second = await refresh(second)
            await retention.remove_auth_sessions(runtime)
            await retention.remove_unused_customers(runtime)
        with pytest.raises(RefreshInvalid):
            await refresh(first)
        assert await runtime.db.fetchval("SELECT count(*) FROM auth_sessions WHERE revoked_at IS NOT NULL") == 1
        clock.advance((91 * DAY).total_seconds())
        await retention.remove_auth_sessions(runtime)
        assert await runtime.db.fetchval("SELECT count(*) FROM auth_sessions") == 0
        with pytest.raises(RefreshInvalid):
            await refresh(second)

    empty_harness.run(play())


def test_only_unused_anonymous_customers_are_deleted(empty_harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = empty_harness.runtime
    monkeypatch.setattr(retention, "AT_ONCE", 3)

    async def play() -> None:
        chat = await completed_chat(empty_harness)
        asked = await empty_harness.customer()
        await payment_request.request_payment(runtime, asked, WISH, address=ADDRESS)
        now = runtime.now()
        past, recent = now - 90 * DAY - SECOND, now - 90 * DAY + 60 * SECOND
        await runtime.db.fetch("UPDATE customers SET created_at = $1", past - DAY)
        gone = [await add_anonymous(runtime, past - n * SECOND) for n in range(5)]
        await add_device(runtime, gone[0], used=past, expires=now + DAY)
        await add_device(runtime, gone[0], used=past - DAY, expires=past, revoked=past)
        in_use, new, joined, known, mail = [await add_anonymous(runtime, past) for _ in range(5)]
        await add_device(runtime, in_use, used=past, expires=now + DAY)
        await add_device(runtime, in_use, used=recent, expires=now + DAY)
        await runtime.db.fetch("UPDATE customers SET created_at = $2 WHERE id = $1", new, recent)
        await runtime.db.fetch("UPDATE customers SET phone = '+6281', is_anonymous = false WHERE id = $1", known)
        await runtime.db.fetch("UPDATE customers SET email = 'dewi@example.test' WHERE id = $1", mail)
        async with runtime.transaction() as tx:
            await customers.join(tx, joined, account_id=known)
        before = {one.rule for one in (await audit(runtime)).violations}
        with rows(runtime, retention_unused_anonymous_days=0):
            await retention.remove_unused_customers(runtime)
        assert await runtime.db.fetchval("SELECT count(*) FROM customers WHERE id = ANY($1)", gone) == 5
        await twice(runtime, retention.remove_unused_customers)
        await retention.remove_unused_customers(runtime)
        kept = [chat.customer.user_id, asked.user_id, in_use, new, joined, known, mail]
        assert await runtime.db.fetchval(LEFT + "customers") == sorted(kept)
        assert await runtime.db.fetchval("SELECT count(*) FROM auth_sessions WHERE user_id = ANY($1)", gone) == 0
        assert {one.rule for one in (await audit(runtime)).violations} == before

    empty_harness.run(play())


def test_customer_who_is_busy_while_the_sweep_looks_is_kept(clean_harness: Harness) -> None:
    """A payment that is being stored locks its customer; a refresh locks its auth session."""
    runtime = clean_harness.runtime

    async def play() -> None:
        past = runtime.now() - 100 * DAY
        paying, refreshing = [await add_anonymous(runtime, past) for _ in range(2)]
        device = await add_device(runtime, refreshing, used=past, expires=runtime.now() + DAY)
        async with runtime.transaction() as tx:
            await customers.lock(tx, paying)
            await tx.fetchval("SELECT 1 FROM auth_sessions WHERE id = $1 FOR UPDATE", device)
            await retention.remove_unused_customers(runtime)
        assert await runtime.db.fetchval(LEFT + "customers") == sorted([paying, refreshing])
        actor = Actor(
            user_type=UserType.CUSTOMER, user_id=paying, auth_session_id=ids.new_id(), expires_at=2**40, ids=(paying,)
        )
        async with runtime.transaction() as tx:
            await customers.set_display_name(tx, paying, "Dewi")
        await payment_request.request_payment(runtime, actor, WISH, address=ADDRESS)
        await retention.remove_unused_customers(runtime)
        assert await runtime.db.fetchval(LEFT + "customers") == [paying]

    clean_harness.run(play())


def test_shorter_retention_takes_effect_a_day_later_and_a_longer_one_at_once(empty_harness: Harness) -> None:
    runtime = empty_harness.runtime
    clock = runtime.clock = HandClock(runtime.now())

    async def play() -> None:
        await runtime.db.fetch(
            "INSERT INTO roles (id, name, permissions, created_at) VALUES ($1, 'all', '{\"*\": \"write\"}', now())",
            ids.new_id(),
        )
        made = await setup.create_operator(
            runtime, email="a@example.test", display_name="Ana", role="all", password="a quite long password 7"
        )
        assert made is not None
        operator = Actor(user_type=UserType.OPERATOR, user_id=Id(made.id), auth_session_id="", expires_at=2**40, ids=())

        async def keep(days: int) -> None:
            await operator_work.set_config(runtime, operator, {"retention_otp_days": days})

        async def left() -> list[str]:
            await retention.remove_codes(runtime)
            return await runtime.db.fetchval(f"{LEFT} otp_requests")

        of_20_days, of_5_days = await add_codes(runtime, runtime.now() - 20 * DAY, runtime.now() - 5 * DAY)
        for days in (10, 1, 3):  # the value of a day ago was 30
            await keep(days)
            assert await left() == sorted([of_20_days, of_5_days])
        clock.advance(86_399)
        assert await left() == sorted([of_20_days, of_5_days])
        await keep(0)  # always: undone in time
        clock.advance(10 * 86_400)
        await keep(40)
        assert await left() == sorted([of_20_days, of_5_days])
        clock.advance(86_401)
        await keep(18)  # the older code is 31 days old, and was to be kept for 40
        clock.advance(86_400)
        await keep(30)  # longer, so at once: its 30 days hold, not the 18
        assert await left() == [of_5_days]

    empty_harness.run(play())
