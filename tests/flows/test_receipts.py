"""Receipts: every completion makes one, it is signed once, and it agrees with the database."""

import asyncio
import datetime as dt
from typing import Any

import asyncpg
import msgspec
import pytest

from core.base import ids
from core.base.actor import Actor
from core.base.errors import NotFound
from core.cluster.outages.rules import OutageKind
from core.desk.ledger.audit import audit
from core.runtime.container import Runtime
from core.sessions import end as end_session
from core.sessions import timers as session_timers
from core.sessions.clock import time_credits
from core.sessions.extensions import answer as extension_answer
from core.sessions.extensions import ask as extension_ask
from core.sessions.extensions import request as extension_request
from core.sessions.extensions import store as extensions
from core.sessions.extensions.request import MoreMinutes
from core.sessions.messages import blank as blank_texts
from core.sessions.messages import digests
from core.sessions.messages import send as message_send
from core.sessions.receipts import show as show_receipts
from core.sessions.receipts import signing
from core.sessions.receipts.rules import Receipt, ReceiptNotReady, SessionNotCompleted, SignedReceipt
from core.sessions.receipts.signing import ReceiptKeys
from core.sessions.rules import CreditReason
from tests.flows.chats import Chat, a_chat, completed_chat
from tests.flows.conftest import ADDRESS, Harness, rows
from tests.flows.test_digests import digests_of, fill

SECOND = dt.timedelta(seconds=1)
ROW = "SELECT * FROM session_receipts WHERE session_id = $1"
BACK = """UPDATE chat_sessions SET paired_at = paired_at - $2::interval, expires_at = expires_at - $2::interval,
  warn_at = warn_at - $2::interval, grace_ends_at = grace_ends_at - $2::interval, ended_at = ended_at - $2::interval,
  resumed_at = resumed_at - $2::interval WHERE id = $1"""
EXTENSIONS_BACK = """UPDATE session_extensions SET responded_at = responded_at - $2::interval,
  requested_at = requested_at - $2::interval WHERE session_id = $1"""
OUTAGES_BACK = "UPDATE outages SET began_at = began_at - $1::interval, ended_at = ended_at - $1::interval"
CREDITS_BACK = """UPDATE session_time_credits SET created_at = created_at - $2::interval,
  began_at = began_at - $2::interval, ended_at = ended_at - $2::interval WHERE session_id = $1"""
OUTAGE = "INSERT INTO outages (id, kind, began_at, ended_at) VALUES ($1, $2, $3, $4)"
TWELVE = 720
SETTLED_S = show_receipts.SETTLED_S


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sign without the pause after the completion; tests about the pause set it again."""
    monkeypatch.setattr(show_receipts, "SETTLED_S", 0.0)


@pytest.fixture
def quiet(clean_harness: Harness) -> Harness:
    """Remove all outages and leases, too."""
    clean_harness.run(clean_harness.empty("service_processes", "outages"))
    return clean_harness


def keys_of(runtime: Runtime) -> ReceiptKeys:
    return signing.keys_of(runtime.settings.receipt_signing_keys)


async def pass_time(chat: Chat, seconds: float) -> None:
    """Let everything of a session, and all outages, be this much longer ago."""
    async with chat.harness.runtime.transaction() as tx:
        for sql in (BACK, EXTENSIONS_BACK, CREDITS_BACK):
            await tx.execute(sql, chat.id, seconds * SECOND)
        await tx.execute(OUTAGES_BACK, seconds * SECOND)


async def receipt_of(chat: Chat, party: Actor | None = None) -> Receipt:
    """Return a session's receipt after checking its signature."""
    signed = await show_receipts.of_party(chat.harness.runtime, party or chat.customer, session_id=chat.id)
    return signing.verify(msgspec.json.encode(signed), keys_of(chat.harness.runtime).jwk_set())


async def expire(chat: Chat) -> None:
    await session_timers.expire(chat.harness.runtime)
    assert (await chat.row("SELECT status FROM chat_sessions WHERE id = $1"))["status"] == "expired"


async def by_timer(chat: Chat) -> None:
    await pass_time(chat, TWELVE)
    await expire(chat)
    await pass_time(chat, 300)
    await session_timers.complete(chat.harness.runtime)


async def by_goodbyes(chat: Chat) -> None:
    await pass_time(chat, TWELVE)
    await expire(chat)
    for party in (chat.customer, chat.mitra):
        await end_session.say_goodbye(chat.harness.runtime, party, session_id=chat.id, message="dadah")


async def by_early_end_and_timer(chat: Chat) -> None:
    await pass_time(chat, 100)
    with rows(chat.harness.runtime, early_end_customer_enabled=True):
        await end_session.end(chat.harness.runtime, chat.customer, session_id=chat.id)
    await pass_time(chat, 300)
    await session_timers.complete(chat.harness.runtime)


async def by_early_end_and_goodbyes(chat: Chat) -> None:
    await pass_time(chat, 100)
    with rows(chat.harness.runtime, early_end_mitra_enabled=True):
        await end_session.end(chat.harness.runtime, chat.mitra, session_id=chat.id)
    await pass_time(chat, 10)
    for party in (chat.customer, chat.mitra):
        await end_session.say_goodbye(chat.harness.runtime, party, session_id=chat.id, message="dadah")


async def as_very_long_chat(chat: Chat) -> None:
    await fill(chat, 1, 20_500)
    await chat.harness.runtime.db.fetch(
        "UPDATE chat_sessions SET customer_delivered_seq = 20500, mitra_delivered_seq = 20500 WHERE id = $1", chat.id
    )
    await pass_time(chat, TWELVE)
    await expire(chat)
    await pass_time(chat, 300)
    async with asyncio.timeout(30):
        while not await session_timers.complete(chat.harness.runtime):
            pass


@pytest.mark.parametrize(
    ("complete", "could_talk"),
    [
        (by_timer, TWELVE),
        (by_goodbyes, TWELVE),
        (by_early_end_and_timer, 100),
        (by_early_end_and_goodbyes, 100),
        (as_very_long_chat, TWELVE),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_every_way_to_complete_a_session_makes_its_receipt(quiet: Harness, complete: Any, could_talk: int) -> None:
    async def play() -> None:
        began = quiet.runtime.now()
        chat = await a_chat(quiet)
        if complete is not as_very_long_chat:
            await chat.commit(chat.draft(chat.customer, "halo"), chat.draft(chat.mitra, "ya?"))
        await complete(chat)
        took = (quiet.runtime.now() - began).total_seconds()
        pending = await chat.row(ROW)
        assert (pending["body"], pending["signed_at"]) == (None, None)
        found = await receipt_of(chat)
        session = await chat.row("SELECT status, ended_at, last_seq FROM chat_sessions WHERE id = $1")
        assert session["status"] == "completed"
        assert dt.datetime.fromisoformat(found.completed_at) == session["ended_at"]
        assert (found.seconds_paid, found.seconds_credited) == (TWELVE, 0)
        assert could_talk <= found.seconds_both_could_talk <= could_talk + took
        assert found.messages == session["last_seq"] > 1
        messages = [(row["seq"], str(row["id"]), row["content"]) for row in await chat.log()]
        assert found.digest == digests_of(messages)[-1]
        assert await receipt_of(chat, chat.mitra) == found

    quiet.run(play())


def test_receipt_is_refused_before_completion_and_to_others(quiet: Harness) -> None:
    async def play() -> None:
        chat, stranger = await a_chat(quiet), await quiet.customer()
        with pytest.raises(SessionNotCompleted):
            await receipt_of(chat)
        await by_goodbyes(chat)
        for session_id, party in ((chat.id, stranger), (ids.new_id(), chat.customer)):
            with pytest.raises(NotFound):
                await show_receipts.of_party(quiet.runtime, party, session_id=session_id)
        # As of a session that was completed before there were receipts.
        await quiet.runtime.db.fetch("DELETE FROM session_receipts WHERE session_id = $1", chat.id)
        with pytest.raises(NotFound):
            await receipt_of(chat)

    quiet.run(play())


def test_outage_that_is_recorded_after_the_completion_is_in_the_receipt(
    quiet: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A party who asks at once is refused with the time to wait; one who asks later waits for the rest."""
    monkeypatch.setattr(show_receipts, "SETTLED_S", SETTLED_S)

    async def play() -> None:
        chat = await a_chat(quiet)
        await pass_time(chat, TWELVE)
        await expire(chat)
        for party in (chat.customer, chat.mitra):
            await end_session.say_goodbye(quiet.runtime, party, session_id=chat.id, message="dadah")
        for ask in (
            show_receipts.of_party(quiet.runtime, chat.customer, session_id=chat.id),
            show_receipts.of_session(quiet.runtime, chat.id),
        ):
            with pytest.raises(ReceiptNotReady) as refused:
                await ask
            assert refused.value.retry_after_seconds in (4, 5)
        await outage(chat, OutageKind.DATABASE, 15, 5)
        monkeypatch.setattr(show_receipts, "SETTLED_S", 0.5)
        assert TWELVE - 11 <= (await receipt_of(chat)).seconds_both_could_talk <= TWELVE - 9
        completed_at = (await chat.row(ROW))["completed_at"]
        assert (await chat.row(ROW))["signed_at"] >= completed_at + 0.5 * SECOND

    quiet.run(play())


def test_sweep_signs_once_what_parties_and_other_sweeps_ask_for_at_the_same_moment(
    quiet: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = quiet.runtime
    monkeypatch.setattr(show_receipts, "SETTLED_S", 60.0)

    async def play() -> None:
        chats = [await completed_chat(quiet, messages=n) for n in (0, 1, 70)]
        await show_receipts.sign_due(runtime)
        for chat in chats:  # completed less than SETTLED_S ago
            assert (await chat.row(ROW))["signed_at"] is None
        await runtime.db.fetch("UPDATE session_receipts SET completed_at = completed_at - interval '61 s'")
        got: list[SignedReceipt] = []

        async def ask(chat: Chat) -> None:
            got.append(await show_receipts.of_party(runtime, chat.mitra, session_id=chat.id))

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(show_receipts.sign_due(runtime))
                for chat in chats:
                    group.create_task(ask(chat))
        assert len({msgspec.json.encode(one) for one in got}) == len(chats)
        rows = [dict(await chat.row(ROW)) for chat in chats]
        await show_receipts.sign_due(runtime)
        assert [dict(await chat.row(ROW)) for chat in chats] == rows

    quiet.run(play())


def test_signed_receipt_is_never_changed_and_completion_makes_only_one(quiet: Harness) -> None:
    async def play() -> None:
        chat = await completed_chat(quiet)
        await receipt_of(chat)
        for change in ("signature = repeat('x', 86)", "completed_at = now()", "signed_at = NULL, body = NULL"):
            with pytest.raises(asyncpg.CheckViolationError, match="a signed receipt never changes"):
                await quiet.runtime.db.fetch(f"UPDATE session_receipts SET {change} WHERE session_id = $1", chat.id)
        with pytest.raises(asyncpg.CheckViolationError):
            await quiet.runtime.db.fetch(
                "INSERT INTO session_receipts (id, session_id, talked_until, completed_at, body) "
                "VALUES (gen_random_uuid(), $1, now(), now(), '{}')",
                (await a_chat(quiet)).id,
            )

    quiet.run(play())


class Killed(BaseException):
    """The process dies."""


@pytest.mark.slow
@pytest.mark.parametrize("dies_after", range(4))
def test_receipt_is_signed_by_the_next_process_wherever_one_died(
    quiet: Harness, dies_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies after some parts of the digest, or in the transaction that signs."""

    async def play() -> None:
        chat = await completed_chat(quiet, messages=1)
        await fill(chat, 2, 12_000)
        advance, calls = digests.advance, 0

        async def dying(*args: Any, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            found = await advance(*args, **more)
            if calls > dies_after:
                raise Killed
            return found

        def sign(*_: Any) -> Any:
            raise Killed

        with monkeypatch.context() as patched:
            patched.setattr(digests, "advance", dying)
            patched.setattr(ReceiptKeys, "sign", sign)
            with pytest.raises(Killed):
                await receipt_of(chat)
        assert (await chat.row(ROW))["signed_at"] is None

        messages = [(row["seq"], str(row["id"]), row["content"]) for row in await chat.log()]
        assert (await receipt_of(chat)).digest == digests_of(messages)[-1]

    quiet.run(play())


async def extend(chat: Chat) -> None:
    """Let the customer pay for 12 more minutes, and the mitra approve them."""
    runtime = chat.harness.runtime
    made = await extension_request.request_extension(
        runtime, chat.customer, MoreMinutes(session_id=chat.id, duration_minutes=12), address=ADDRESS
    )
    assert await chat.harness.report_paid(made.payment_request_id, made.amount) == "confirmed"
    await extension_ask.ask(runtime, payment_request_id=made.payment_request_id)
    asked = await extensions.pending_of(runtime.db, chat.id)
    assert asked is not None
    await extension_answer.answer(runtime, chat.mitra, session_id=chat.id, extension_id=asked.id, accept=True)


async def outage(chat: Chat, kind: OutageKind, began: float, ended: float) -> None:
    """Record an outage between two moments, in seconds before now."""
    now = chat.harness.runtime.now()
    await chat.harness.runtime.db.fetch(OUTAGE, ids.new_id(), kind, now - began * SECOND, now - ended * SECOND)


def test_receipt_has_extensions_credits_and_outages(quiet: Harness) -> None:
    """Five seconds of the last outage are in the paid time; no credit is given for it."""
    runtime = quiet.runtime

    async def play() -> None:
        chat = await a_chat(quiet)
        await pass_time(chat, 100)
        await extend(chat)
        await pass_time(chat, 600)
        await outage(chat, OutageKind.DATABASE, 40, 20)
        await outage(chat, OutageKind.REALTIME, 30, 10)
        await outage(chat, OutageKind.API, 9, 1)
        now = runtime.now()
        async with runtime.transaction() as tx:
            await time_credits.give(
                tx,
                [chat.id],
                reason=CreditReason.DATABASE,
                began_at=now - 40 * SECOND,
                ended_at=now - 10 * SECOND,
                outage_id=ids.new_id(),
            )
        left = (await chat.row("SELECT expires_at FROM chat_sessions WHERE id = $1"))["expires_at"] - runtime.now()
        await pass_time(chat, left.total_seconds() + 100)
        await expire(chat)
        await extend(chat)  # 100 s after the end
        await pass_time(chat, TWELVE)
        await outage(chat, OutageKind.REALTIME, 5, -5)
        await expire(chat)
        await pass_time(chat, 300)
        await session_timers.complete(runtime)
        found = await receipt_of(chat)
        assert (found.seconds_paid, found.seconds_credited) == (3 * TWELVE, 30)
        # All paid time was given back but for the last five seconds.
        assert abs(found.seconds_both_could_talk - (3 * TWELVE - 5)) <= 2

    quiet.run(play())


def test_time_lost_before_an_extension_is_not_a_gap_if_it_is_credited_after_it(quiet: Harness) -> None:
    """The session is extended 15 s after its stored end, when 40 s are still to be credited."""
    runtime = quiet.runtime

    async def play() -> None:
        chat = await a_chat(quiet)
        await pass_time(chat, TWELVE + 15)
        await outage(chat, OutageKind.DATABASE, 60, 20)
        await runtime.db.fetch("UPDATE outages SET credit_at = ended_at")
        await extend(chat)
        (row,) = await runtime.db.fetch("SELECT id::text, began_at, ended_at FROM outages")
        async with runtime.transaction() as tx:
            await time_credits.give(
                tx,
                [chat.id],
                reason=CreditReason.DATABASE,
                began_at=row["began_at"],
                ended_at=row["ended_at"],
                outage_id=row["id"],
            )
        await runtime.db.fetch("UPDATE outages SET credited_at = ended_at, credit_at = NULL")
        await pass_time(chat, TWELVE + 30)
        await expire(chat)
        await pass_time(chat, 300)
        await session_timers.complete(runtime)
        found = await receipt_of(chat)
        assert (found.seconds_paid, found.seconds_credited) == (2 * TWELVE, 40)
        assert 2 * TWELVE - 1 <= found.seconds_both_could_talk <= 2 * TWELVE

    with rows(runtime, fair_clock=True):
        quiet.run(play())


@pytest.mark.parametrize(("renewed", "counts"), [(60, True), (0, False)])
def test_realtime_outage_that_is_not_over_counts_like_a_recorded_one(
    quiet: Harness, renewed: float, counts: bool
) -> None:
    """It begins half a second after the last renewal, and counts if it is longer than a lease."""

    async def play() -> None:
        chat = await a_chat(quiet)
        await pass_time(chat, 200)
        now = quiet.runtime.now()
        await quiet.runtime.db.fetch(
            "INSERT INTO service_processes (place, kind, since_at, alive_at, lost_at, given_up_at) "
            "VALUES ('realtime h:1', 'realtime', $1, $1, $1, $1)",
            now - renewed * SECOND,
        )
        with rows(quiet.runtime, early_end_customer_enabled=True):
            await end_session.end(quiet.runtime, chat.customer, session_id=chat.id)
        for party in (chat.customer, chat.mitra):
            await end_session.say_goodbye(quiet.runtime, party, session_id=chat.id, message="dadah")
        until = now - (renewed - 0.5) * SECOND if counts else (await chat.row(ROW))["talked_until"]
        paired_at = (await chat.row("SELECT paired_at FROM chat_sessions WHERE id = $1"))["paired_at"]
        assert (await receipt_of(chat)).seconds_both_could_talk == (until - paired_at) // SECOND

    quiet.run(play())


@pytest.mark.parametrize("signed_first", [True, False])
def test_blanked_session_keeps_the_digest_in_its_receipt(quiet: Harness, signed_first: bool) -> None:
    async def play() -> None:
        chat = await completed_chat(quiet, messages=5)
        messages = [(row["seq"], str(row["id"]), row["content"]) for row in await chat.log()]
        if signed_first:
            await receipt_of(chat)
        async with quiet.runtime.transaction() as tx:
            await blank_texts.blank_sessions(tx, [chat.id])
        async with quiet.runtime.transaction() as tx:
            assert await blank_texts.blank_messages(tx, [chat.id])
        assert {row["content"] for row in await chat.log()} == {""}
        found = await receipt_of(chat)
        assert (found.messages, found.digest) == (5, digests_of(messages)[-1])

    quiet.run(play())


@pytest.mark.parametrize("is_blanked", [False, True])
def test_receipt_of_a_chat_that_lacks_its_last_message_has_no_digest(quiet: Harness, is_blanked: bool) -> None:
    async def play() -> None:
        chat = await completed_chat(quiet, messages=5)
        await quiet.runtime.db.fetch("DELETE FROM chat_messages WHERE session_id = $1 AND seq = 5", chat.id)
        if is_blanked:
            async with quiet.runtime.transaction() as tx:
                await blank_texts.blank_sessions(tx, [chat.id])
            async with quiet.runtime.transaction() as tx:
                await blank_texts.blank_messages(tx, [chat.id])
        await show_receipts.sign_due(quiet.runtime)
        found = await receipt_of(chat)
        assert (found.messages, found.digest) == (5, None)

    quiet.run(play())


def test_audit_finds_missing_and_wrong_receipts(empty_harness: Harness) -> None:
    runtime: Runtime = empty_harness.runtime

    async def violations() -> list[tuple[str, str]]:
        found = (await audit(runtime)).violations
        return sorted((one.rule, one.id) for one in found if "receipt" in one.rule)

    async def play() -> None:
        old, chat, lost, late = [await completed_chat(empty_harness) for _ in range(4)]
        await runtime.db.fetch("DELETE FROM session_receipts WHERE session_id = $1", old.id)
        await receipt_of(chat)
        assert await violations() == []
        await runtime.db.fetch("DELETE FROM session_receipts WHERE session_id = $1", lost.id)
        await runtime.db.fetch(
            "UPDATE session_receipts SET completed_at = completed_at - interval '5 min' WHERE session_id = $1", late.id
        )
        await message_send.sync_statuses(runtime, {chat.id: 0})
        await runtime.db.fetch("UPDATE chat_sessions SET last_seq = 4 WHERE id = $1", chat.id)
        agrees = "a completed session has a receipt that agrees with it"
        signed = "the receipt of a completed session is signed"
        # The receipt that was made earlier now is the first one, so the first session lacks one, too.
        assert await violations() == sorted([(agrees, chat.id), (agrees, lost.id), (agrees, old.id), (signed, late.id)])

    empty_harness.run(play())
