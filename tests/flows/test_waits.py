"""Work that has waited for a lock or a connection uses the state and the time after the wait."""

import asyncio
import datetime as dt
import json
from typing import Any

import attrs
import msgspec
import pytest

from core.accounts.logins import devices as login_devices
from core.accounts.logins import tokens
from core.accounts.mitras.rules import availability_policy
from core.accounts.operators import edit, roles
from core.accounts.operators import sign_in as operator_sign_in
from core.base import ids
from core.base.actor import Actor, UserType
from core.desk import operator_work, setup
from core.desk.ledger.audit import audit
from core.desk.operator_work import MitraChange
from core.idempotency import run as purge_keys
from core.idempotency import store as idempotency
from core.idempotency.rules import KeyedRequest
from core.pairing import answer as pairing_answer
from core.pairing import cancel as pairing_cancel
from core.pairing import fallback as pairing_fallback
from core.pairing import presence
from core.pairing import request as payment_request
from core.pairing import start as pairing_start
from core.pairing import store as pairing
from core.payments import store as payments
from core.payments import views as payment_views
from core.payments.failures.rules import NotTargeted
from core.payments.rules import SessionInProgress
from core.payments.states import PaymentStatus
from core.payments.webhooks import receive as webhook_receive
from core.payments.webhooks import replay as webhook_replay
from core.payments.webhooks.store import ORPHANED, Received
from core.security import refresh
from core.sessions import store as sessions
from core.sessions import transitions
from tests.flows.conftest import ADDRESS, WAITING, WISH, Harness
from tests.verdicts import check_books

PASSWORD = "correct horse staple"


async def _after(
    harness: Harness, held: str, *args: Any, work: Any, change: str | None = None
) -> tuple[Any, dt.datetime]:
    """Run a flow that waits for the locks of a statement; return its result and the moment of the release.

    `change` runs before the release, with the same arguments.
    """
    async with harness.runtime.db.pool.acquire() as holder:
        async with holder.transaction():
            await holder.fetch(held, *args)
            if change is not None:
                await holder.fetch(change, *args)
            task = asyncio.create_task(work)
            await harness.until(WAITING, 1)
            released = harness.runtime.now()
        return await task, released


# -- time


def test_paid_minutes_start_after_the_wait_for_the_mitras_lock(clean_harness: Harness) -> None:
    async def play() -> None:
        customer, mitra = await clean_harness.customer(), await clean_harness.mitra()
        await presence.go_online(clean_harness.runtime, mitra)
        request_id = await clean_harness.paid(customer)
        await pairing_start.start(clean_harness.runtime, payment_request_id=request_id)
        session = await clean_harness.session_of(request_id)
        view, released = await _after(
            clean_harness,
            "SELECT 1 FROM mitras WHERE id = $1 FOR NO KEY UPDATE",
            mitra.user_id,
            work=pairing_answer.accept(clean_harness.runtime, mitra, session_id=session.id),
        )
        assert view.expires_at - dt.timedelta(minutes=12) >= released

    clean_harness.run(play())


def test_online_log_entry_follows_the_offline_entry_it_waited_for(clean_harness: Harness) -> None:
    async def play() -> None:
        mitra = await clean_harness.mitra()
        _, released = await _after(
            clean_harness,
            "SELECT 1 FROM mitras WHERE id = $1 FOR NO KEY UPDATE",
            mitra.user_id,
            work=presence.go_online(clean_harness.runtime, mitra),
        )
        log = 'SELECT "timestamp" FROM mitra_online_logs WHERE mitra_id = $1'
        assert await clean_harness.runtime.db.fetchval(log, mitra.user_id) >= released

    clean_harness.run(play())


# -- the newest search


async def target_went_offline(harness: Harness) -> tuple[Actor, str]:
    """Create a customer whose paid request is for one mitra, who went offline before the search began."""
    customer, mitra = await harness.customer(), await harness.mitra()
    async with harness.runtime.transaction() as tx:
        await transitions.create_completed(
            tx, ids.new_id(), customer_id=customer.user_id, mitra_id=mitra.user_id,
            began_at=tx.now - dt.timedelta(minutes=30), ended_at=tx.now - dt.timedelta(minutes=18), topics=None,
        )  # fmt: skip
    await presence.go_online(harness.runtime, mitra)
    request_id = await harness.paid(customer, attrs.evolve(WISH, targeted_mitra_id=mitra.user_id))
    await presence.go_offline(harness.runtime, mitra_id=mitra.user_id)
    return customer, request_id


def test_continued_search_is_the_newest_even_with_wrong_clocks(clean_harness: Harness) -> None:
    async def play() -> None:
        customer, request_id = await target_went_offline(clean_harness)
        await pairing_start.start(clean_harness.runtime, payment_request_id=request_id)
        assert (await clean_harness.session_of(request_id)).status == "failed"
        ahead = "UPDATE chat_sessions SET created_at = created_at + interval '1 minute' WHERE payment_request_id = $1"
        await clean_harness.runtime.db.fetch(ahead, request_id)
        await pairing_fallback.fall_back(clean_harness.runtime, customer, payment_request_id=request_id)
        session = await clean_harness.session_of(request_id)
        assert session.status == "searching"
        view = await payment_views.one_of(clean_harness.runtime.db, request_id, customer_ids=[customer.user_id])
        assert view is not None
        assert view.session_id == session.id
        await pairing_cancel.cancel(clean_harness.runtime, customer, payment_request_id=request_id)
        rows = await clean_harness.runtime.db.fetch(
            "SELECT status FROM chat_sessions WHERE payment_request_id = $1 ORDER BY status", request_id
        )
        assert [row["status"] for row in rows] == ["cancelled", "failed"]
        check_books(await audit(clean_harness.runtime, overdue=False))

    clean_harness.run(play())


@pytest.mark.parametrize("taps", [1, 2, 3])
def test_fallback_while_the_pairing_begins_leaves_one_search(clean_harness: Harness, taps: int) -> None:
    async def play() -> None:
        runtime = clean_harness.runtime
        for _ in range(8):
            customer, request_id = await target_went_offline(clean_harness)
            async with asyncio.TaskGroup() as group:
                for _ in range(taps):
                    group.create_task(_tap(clean_harness, customer, request_id))
                group.create_task(pairing_start.start(runtime, payment_request_id=request_id))
            # What an earlier call leaves to the signal.
            await pairing_start.start(runtime, payment_request_id=request_id)
            assert (await clean_harness.session_of(request_id)).status == "searching"
            await pairing_cancel.cancel(runtime, customer, payment_request_id=request_id)
            found = await payments.get(runtime.db, request_id)
            assert found is not None
            assert found.status == "failed_pairing"
        check_books(await audit(runtime, overdue=False))

    clean_harness.run(play())


async def _tap(harness: Harness, customer: Actor, request_id: str) -> None:
    try:
        await pairing_fallback.fall_back(harness.runtime, customer, payment_request_id=request_id)
    except NotTargeted:
        return  # another call was first


def test_open_invitation_is_unanswered_even_with_wrong_clocks(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime, customer, mitra = clean_harness.runtime, await clean_harness.customer(), await clean_harness.mitra()
        await presence.go_online(runtime, mitra)
        request_id = await clean_harness.paid(customer)
        await pairing_start.start(runtime, payment_request_id=request_id)
        session = await clean_harness.session_of(request_id)
        await presence.go_offline(runtime, mitra_id=mitra.user_id)
        assert await pairing.last_response(runtime.db, session.id, mitra.user_id) == (True, "IGNORED")
        ahead = "UPDATE chat_request_notifications SET notified_at = notified_at + interval '1 minute' WHERE session_id = $1"
        await runtime.db.fetch(ahead, session.id)
        await presence.go_online(runtime, mitra)
        async with runtime.transaction() as tx:
            assert await sessions.lock(tx, session.id)
            limits = availability_policy(runtime.config)
            assert await pairing.invite(tx, session.id, limits, round_number=1, answer_by=session.round_ends_at)
        assert await pairing.last_response(runtime.db, session.id, mitra.user_id) == (True, None)

    clean_harness.run(play())


def test_invitation_during_going_offline_counts_as_unanswered(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime, customer, mitra = clean_harness.runtime, await clean_harness.customer(), await clean_harness.mitra()
        await presence.go_online(runtime, mitra)
        request_id = await clean_harness.paid(customer)
        await pairing_start.start(runtime, payment_request_id=request_id)
        session = await clean_harness.session_of(request_id)
        await presence.go_offline(runtime, mitra_id=mitra.user_id)
        await presence.go_online(runtime, mitra)
        assert session.round_ends_at is not None
        async with runtime.transaction() as tx:
            assert await sessions.lock(tx, session.id)
            limits = availability_policy(runtime.config)
            assert await pairing.invite(tx, session.id, limits, round_number=1, answer_by=session.round_ends_at)
            await presence.go_offline(runtime, mitra_id=mitra.user_id)  # does not see the invitation yet
        assert await pairing.last_response(runtime.db, session.id, mitra.user_id) == (True, None)
        await presence.close_orphaned_invitations(runtime)
        assert await pairing.last_response(runtime.db, session.id, mitra.user_id) == (True, "IGNORED")
        assert (await clean_harness.session_of(request_id)).status == "searching"

    clean_harness.run(play())


# -- joined accounts


async def _a_search_and_a_payment_of_another_row(harness: Harness) -> tuple[Actor, Actor, str]:
    """Create an account that searches, a customer who is about to sign into it, and that customer's paid request."""
    account, before = await harness.customer(), await harness.customer()
    await harness.runtime.db.fetch(KNOWN, account.user_id)
    await pairing_start.start(harness.runtime, payment_request_id=await harness.paid(account))
    return account, before, await harness.paid(before)


KNOWN = "UPDATE customers SET is_anonymous = false, identity_a_sub = id::text WHERE id = $1"
JOIN = "UPDATE customers SET account_belongs_to = $2 WHERE id = $1"
LIVE = """SELECT count(*)::int FROM chat_sessions WHERE customer_id = ANY($1)
  AND status IN ('searching', 'active', 'expired')"""


async def _one_is_live_and_the_other_failed(harness: Harness, people: list[str], request_id: str) -> None:
    assert await harness.runtime.db.fetchval(LIVE, people) == 1
    payment = await payments.get(harness.runtime.db, request_id)
    assert payment is not None
    assert payment.status is PaymentStatus.FAILED_PAIRING
    frames = await harness.runtime.db.fetch(
        "SELECT payload::text AS frame FROM deliveries WHERE recipient_id = $1", people[1]
    )
    assert any("payment_session_expired" in row["frame"] for row in frames)
    check_books(await audit(harness.runtime))


def test_search_that_waited_for_a_sign_in_finds_the_accounts_live_session(clean_harness: Harness) -> None:
    async def play() -> None:
        account, before, request_id = await _a_search_and_a_payment_of_another_row(clean_harness)
        held = "SELECT 1 FROM customers WHERE id = $1 AND $2::uuid IS NOT NULL FOR NO KEY UPDATE"
        work = pairing_start.start(clean_harness.runtime, payment_request_id=request_id)
        await _after(clean_harness, held, before.user_id, account.user_id, work=work, change=JOIN)
        await _one_is_live_and_the_other_failed(clean_harness, [account.user_id, before.user_id], request_id)

    clean_harness.run(play())


def test_payment_from_before_the_sign_in_starts_no_second_live_session(clean_harness: Harness) -> None:
    async def play() -> None:
        account, before, request_id = await _a_search_and_a_payment_of_another_row(clean_harness)
        await clean_harness.runtime.db.fetch(JOIN, before.user_id, account.user_id)
        joined = attrs.evolve(account, ids=(account.user_id, before.user_id))
        with pytest.raises(SessionInProgress):
            await pairing_fallback.start_by_hand(clean_harness.runtime, joined, payment_request_id=request_id)
        await pairing_start.start(clean_harness.runtime, payment_request_id=request_id)
        await _one_is_live_and_the_other_failed(clean_harness, [account.user_id, before.user_id], request_id)

    clean_harness.run(play())


# -- operators


def test_phone_change_and_deactivation_during_a_search_do_not_deadlock(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime, mitra = clean_harness.runtime, await clean_harness.mitra()
        await presence.go_online(runtime, mitra)
        request_id = await clean_harness.paid(await clean_harness.customer())
        await pairing_start.start(runtime, payment_request_id=request_id)
        session = await clean_harness.session_of(request_id)
        operator_id, _, _ = await _operator(clean_harness)
        operator = attrs.evolve(mitra, user_type=UserType.OPERATOR, user_id=operator_id, ids=(operator_id,))
        change = MitraChange(phone="+628990001234", is_active=False)
        async with runtime.db.pool.acquire() as searching:
            async with searching.transaction():
                await searching.fetch("SELECT 1 FROM chat_sessions WHERE id = $1 FOR UPDATE", session.id)
                work = operator_work.change_mitra(
                    runtime, operator, mitra_id=mitra.user_id, change=change, stepped_up=True
                )
                task = asyncio.create_task(work)
                await clean_harness.until(WAITING, 1)
                # A search that invites the mitra refers to the row.
                await searching.fetch("SELECT 1 FROM mitras WHERE id = $1 FOR KEY SHARE", mitra.user_id)
            await task
        seen = await runtime.db.fetchrow("SELECT phone, is_active FROM mitras WHERE id = $1", mitra.user_id)
        assert tuple(seen) == ("+628990001234", False)
        assert (
            await runtime.db.fetchval("SELECT is_online FROM mitra_online_status WHERE mitra_id = $1", mitra.user_id)
            is False
        )

    clean_harness.run(play())


async def _operator(harness: Harness) -> tuple[str, str, str]:
    """Create an operator; return (id, e-mail, id of another role)."""
    email, name = f"{ids.new_id()}@example.test", ids.new_id()
    async with harness.runtime.transaction() as tx:
        await roles.create(tx, name=name, permissions={"sessions": "read"}, require_totp=False)
        other = await roles.create(tx, name=ids.new_id(), permissions={"sessions": "write"}, require_totp=False)
    await setup.create_operator(harness.runtime, email=email, display_name="Ana", role=name, password=PASSWORD)
    found = await harness.runtime.db.fetchval("SELECT id::text FROM control_center_users WHERE email = $1", email)
    return found, email, str(other)


HOLD_OPERATOR = "SELECT $2::uuid FROM control_center_users WHERE id = $1 FOR UPDATE"
OTHER_ROLE = "UPDATE control_center_users SET role_id = $2 WHERE id = $1"


def test_operator_whose_role_changes_during_sign_in_is_signed_in(harness: Harness) -> None:
    async def play() -> None:
        unknown = "SELECT count(*)::int FROM unknown_operator_logins"
        before = await harness.runtime.db.fetchval(unknown)
        operator_id, email, other = await _operator(harness)
        signed_in, _ = await _after(
            harness,
            HOLD_OPERATOR,
            operator_id,
            other,
            change=OTHER_ROLE,
            work=operator_sign_in.sign_in(
                harness.runtime, email=email, password=PASSWORD, device={}, ip_address="127.0.0.1"
            ),
        )
        operator = signed_in.operator
        assert (operator.role_id, operator.permissions) == (other, {"sessions": "write"})
        assert await harness.runtime.db.fetchval(unknown) == before

    harness.run(play())


def test_operator_whose_role_changes_during_a_password_change_has_the_new_password(harness: Harness) -> None:
    async def play() -> None:
        operator_id, email, other = await _operator(harness)
        actor = Actor(
            user_type=UserType.OPERATOR, user_id=operator_id, auth_session_id=ids.new_id(), expires_at=2**40,
            ids=(operator_id,),
        )  # fmt: skip
        await _after(
            harness,
            HOLD_OPERATOR,
            operator_id,
            other,
            change=OTHER_ROLE,
            work=edit.change_password(
                harness.runtime, actor, current=PASSWORD, new="another horse staple", ip_address="127.0.0.1"
            ),
        )
        await operator_sign_in.sign_in(
            harness.runtime, email=email, password="another horse staple", device={}, ip_address="127.0.0.1"
        )

    harness.run(play())


# -- tokens and keys


def test_refresh_retry_in_time_gets_the_same_successor_after_any_wait(harness: Harness) -> None:
    async def play() -> None:
        runtime, customer = harness.runtime, await harness.customer()
        async with runtime.transaction() as tx:
            first = await tokens.issue(
                runtime, tx, user_type=UserType.CUSTOMER, user_id=customer.user_id, device={"device_id": "d"}
            )

        async def refreshed() -> str:
            done = await login_devices.refresh_tokens(
                runtime, refresh_token=first.refresh_token, operators=False, ip_address="192.0.2.1"
            )
            return done.tokens.refresh_token

        second = await refreshed()
        async with runtime.transaction() as tx:
            await tx.fetch("SELECT 1 FROM auth_sessions WHERE user_id = $1 FOR UPDATE", customer.user_id)
            retry = asyncio.create_task(refreshed())
            await harness.until(WAITING, 1)
            # The time of a retry ends now: this one has arrived in time, and is judged later.
            rotated = "UPDATE auth_sessions SET rotated_at = $2 WHERE user_id = $1"
            await tx.execute(rotated, customer.user_id, runtime.now() - refresh.RETRY_WINDOW)
        assert await retry == second
        with pytest.raises(refresh.RefreshInvalid):  # a token that arrives now is a stolen copy
            await refreshed()

    harness.run(play())


def test_request_that_takes_over_an_idempotency_key_sees_the_committed_answer(harness: Harness) -> None:
    async def play() -> None:
        runtime, customer = harness.runtime, await harness.customer()
        request = KeyedRequest(user_id=customer.user_id, key="k", fingerprint="f")
        async with runtime.transaction() as tx:
            await idempotency.claim(tx, request, resource_id=ids.new_id())

        async def look() -> str | None:
            async with runtime.transaction() as tx:
                found = await idempotency.find(tx, request, now=runtime.now())
                assert found is not None
                return found.answer

        async with runtime.transaction() as tx:
            await idempotency.keep(tx, request, http_status=201, answer="{}")
            task = asyncio.create_task(look())
            await harness.until(WAITING, 1)
        assert await task == "{}"

    harness.run(play())


# -- purges


def test_answer_stored_again_while_its_old_key_is_purged_is_kept(harness: Harness) -> None:
    async def play() -> None:
        runtime, customer = harness.runtime, await harness.customer()
        request = KeyedRequest(user_id=customer.user_id, key="k", fingerprint="f")
        async with runtime.transaction() as tx:
            await idempotency.keep(tx, request, http_status=201, answer='{"old":1}')
        await runtime.db.fetch("UPDATE idempotency_keys SET created_at = created_at - interval '25 hours'")
        async with runtime.transaction() as tx:  # a day later the key is used again
            assert await idempotency.find(tx, request, now=tx.now) is None
            await idempotency.keep(tx, request, http_status=201, answer='{"new":1}')
            purge = asyncio.create_task(purge_keys.purge(runtime))
            await harness.until(WAITING, 1)
        await purge
        async with runtime.transaction() as tx:
            kept = await idempotency.find(tx, request, now=tx.now)
        assert kept is not None
        assert kept.answer == '{"new":1}'

    harness.run(play())


def test_abandoned_call_that_takes_effect_later_records_its_result(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime, customer = clean_harness.runtime, await clean_harness.customer()
        request = await payment_request.request_payment(runtime, customer, WISH, address=ADDRESS)
        body = {"id": "inv-late", "external_id": request.payment_request_id, "status": "PAID", "amount": request.amount}
        call = Received(
            id=ids.new_id(), received_at=runtime.now() - dt.timedelta(minutes=5), source_ip="127.0.0.1", headers={},
            token_valid=True, external_id=request.payment_request_id, gateway_invoice_id="inv-late", status="PAID",
            amount=str(request.amount), app_tag=None, raw_body=json.dumps(body).encode(), truncated=False,
        )  # fmt: skip
        row = "SELECT http_status, processing_result, processing_error FROM webhook_logs WHERE id = $1"
        async with runtime.transaction() as tx:
            await tx.fetch("SELECT 1 FROM customers WHERE id = $1 FOR NO KEY UPDATE", customer.user_id)
            task = asyncio.create_task(
                webhook_replay.import_call(runtime, msgspec.json.encode(call), trust_unsealed=True)
            )
            await clean_harness.until(WAITING, 1)
            await webhook_receive.close_abandoned_calls(runtime)
            assert tuple(await runtime.db.fetchrow(row, call.id)) == (500, "error", ORPHANED)
        answer = await task
        assert answer is not None
        assert answer.processing_result == "confirmed"
        assert tuple(await runtime.db.fetchrow(row, call.id)) == (200, "confirmed", None)
        await webhook_receive.close_abandoned_calls(runtime)
        assert tuple(await runtime.db.fetchrow(row, call.id)) == (200, "confirmed", None)

    clean_harness.run(play())
