"""The audit finds every violation that rows can show: a database with all kinds of valid data has none, and each rule,
broken on purpose, is reported alone.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from core.accounts.customers import sign_in as customer_sign_in
from core.accounts.customers.rules import Identity, IdentityKind
from core.accounts.logins import sign_in_anonymous
from core.app.reactions import open_runtime
from core.base import ids
from core.base.actor import Actor, UserType
from core.base.clock import real_sleep
from core.desk import operator_work
from core.desk.ledger.audit import Violation, audit, check
from core.desk.ledger.audit_rules import RULES
from core.idempotency.rules import keyed_request
from core.pairing import answer as pairing_answer
from core.pairing import cancel as pairing_cancel
from core.pairing import fallback as pairing_fallback
from core.pairing import presence
from core.pairing import request as payment_request
from core.pairing import start as pairing_start
from core.pairing.request import PaymentWish
from core.payments.failures.rules import OperatorAction
from core.payments.pricing import admin_store
from core.payments.pricing import edit as pricing_edit
from core.payments.refunds import make_good
from core.payments.webhooks import receive as webhook_receive
from core.payments.webhooks import replay as webhook_replay
from core.payments.webhooks.receive import Incoming
from core.runtime.container import Runtime
from core.sessions import end as end_session
from core.sessions import set_sensitivity
from core.sessions import timers as session_timers
from core.sessions.extensions import answer as extension_answer
from core.sessions.extensions import ask as extension_ask
from core.sessions.extensions import request as extension_request
from core.sessions.extensions.request import MoreMinutes
from core.sessions.messages import send as message_send
from core.sessions.messages.rules import Draft, ReadMarkers
from core.sessions.receipts import show as show_receipts
from core.sessions.sensitivity import Sensitivity
from core.settings.environment import read
from tests.flows.conftest import ADDRESS, CALLBACK_TOKEN, Harness
from tests.stack import EMAIL, Stack
from tests.verdicts import check_books


@attrs.define(kw_only=True)
class FilledDatabase:
    """A database in which the service has done everything that it can do."""

    stage: Harness
    root: Actor

    @property
    def runtime(self) -> Runtime:
        """Return the runtime of the test database."""
        return self.stage.runtime

    async def pays(self, customer: Actor, *, discount: bool = False, target: Actor | None = None) -> str:
        """Create a paid request whose pairing has begun; return its id."""
        payment_id = await self.asks(customer, discount=discount, target=target)
        await self.called(payment_id, 2000 if discount else 12_000)
        await pairing_start.start(self.runtime, payment_request_id=payment_id)
        return payment_id

    async def asks(self, customer: Actor, *, discount: bool = False, target: Actor | None = None) -> str:
        """Create a pending request; return its id."""
        wish = PaymentWish(
            mode="chat",
            duration_minutes=12,
            first_session_discount=discount,
            targeted_mitra_id=target and target.user_id,
            topics=None,
        )
        body = {"minutes": 12}
        key = keyed_request(user_id=customer.user_id, key=ids.new_id(), operation="pay", body=body)
        return (
            await payment_request.request_payment(self.runtime, customer, wish, address=ADDRESS, key=key)
        ).payment_request_id

    async def called(self, payment_id: str, amount: int) -> None:
        """Let the gateway report that a request is paid."""
        call = {"id": f"inv-{payment_id}", "external_id": payment_id, "status": "PAID", "amount": amount}
        headers = {"x-callback-token": CALLBACK_TOKEN}
        incoming = Incoming(body=json.dumps(call).encode(), headers=headers, source_ip="127.0.0.1")
        assert (await webhook_receive.receive(self.runtime, incoming)).http_status == 200

    async def session_of(self, payment_id: str) -> str:
        """Return the id of the newest session of a request."""
        sql = "SELECT id::text FROM chat_sessions WHERE payment_request_id = $1 ORDER BY id DESC LIMIT 1"
        return await self.runtime.db.fetchval(sql, payment_id)

    async def extension(self, customer: Actor, session_id: str) -> str:
        """Create an extension request that waits for the mitra's answer; return its id."""
        made = await extension_request.request_extension(
            self.runtime, customer, MoreMinutes(session_id=session_id, duration_minutes=12), address=ADDRESS
        )
        await self.called(made.payment_request_id, 12_000)
        await extension_ask.ask(self.runtime, payment_request_id=made.payment_request_id)
        sql = "SELECT id::text FROM session_extensions WHERE payment_request_id = $1"
        return await self.runtime.db.fetchval(sql, made.payment_request_id)

    async def talk(self, session_id: str, *senders: Actor) -> None:
        """Send one message from each sender, and mark it delivered and read."""
        for sender in senders:
            draft = Draft(
                id=ids.new_id(), session_id=session_id, sender_id=sender.user_id, client_message_id=ids.new_id(),
                type="text", content="halo", metadata=None,
            )  # fmt: skip
            await message_send.commit_batch(self.runtime, [draft], {})
        mark = ReadMarkers(customer_delivered=9, customer_read=9, mitra_delivered=9, mitra_read=1)
        await message_send.commit_batch(self.runtime, [], {session_id: mark})
        await message_send.sync_statuses(self.runtime, {session_id: 0})


async def _live(life: FilledDatabase) -> None:
    """Create whole sessions and one in each state, operators who work, and customers who join accounts."""
    runtime, stage = life.runtime, life.stage
    ayu, bima = await stage.mitra(), await stage.mitra()
    for mitra in (ayu, bima):
        await presence.go_online(runtime, mitra)
    done, cancels, returns, waits, fails, closes, pays = [await stage.customer() for _ in range(7)]
    # One session from the discount to both goodbyes, with a rejected and an accepted extension.
    first = await life.session_of(await life.pays(done, discount=True))
    await pairing_answer.accept(runtime, ayu, session_id=first)
    await life.talk(first, done, ayu, done)
    for accept in (True, False):
        extension = await life.extension(done, first)
        await extension_answer.answer(runtime, ayu, session_id=first, extension_id=extension, accept=accept)
    for value in (Sensitivity.SENSITIVE, Sensitivity.REGULAR, Sensitivity.SENSITIVE):
        await set_sensitivity.set_sensitivity(runtime, ayu, session_id=first, topic_sensitivity=value)
    await _time_is_up(runtime, first)
    for party in (done, ayu):
        await end_session.say_goodbye(runtime, party, session_id=first, message="sampai jumpa")
    ended_at = runtime.now()
    # A search that the customer cancels, one that falls back to a blast and waits for an extension's answer, and one
    # that no mitra accepts.
    await pairing_cancel.cancel(runtime, cancels, payment_request_id=await life.pays(cancels))
    for n in range(2):
        again = await life.pays(returns, target=ayu if n else None)
        if n:
            await pairing_answer.reject(runtime, ayu, session_id=await life.session_of(again))
            await pairing_fallback.fall_back(runtime, returns, payment_request_id=again)
        second = await life.session_of(again)
        await pairing_answer.accept(runtime, bima if n else ayu, session_id=second)
        if n == 0:
            await life.talk(second, returns)
            await _time_is_up(runtime, second)
            await end_session.end(runtime, returns, session_id=second)
            await end_session.say_goodbye(runtime, returns, session_id=second, message="terima kasih")
    await life.extension(returns, second)
    unwanted = await life.session_of(await life.pays(fails))
    for mitra in (ayu, bima):
        await pairing_answer.reject(runtime, mitra, session_id=unwanted)
    for customer in (closes, waits):
        third = await life.session_of(await life.pays(customer))
        if customer is closes:
            await pairing_answer.accept(runtime, bima, session_id=third)
            await life.talk(third, bima, closes)
            await _time_is_up(runtime, third)
    await life.asks(pays)
    await _operate(life)
    await _join(life)
    await presence.go_offline(runtime, mitra_id=ayu.user_id)
    await real_sleep(max(0.0, show_receipts.SETTLED_S - (runtime.now() - ended_at).total_seconds()))
    await show_receipts.of_session(runtime, first)


async def _time_is_up(runtime: Runtime, session_id: str) -> None:
    """End a session's paid time now."""
    now = runtime.now()
    await runtime.db.fetch(
        """UPDATE chat_sessions SET expires_at = $2, paired_at = paired_at + ($2::timestamptz - expires_at) WHERE id = $1""",
        session_id, now,
    )  # fmt: skip
    assert await session_timers.expire(runtime) == 1


async def _operate(life: FilledDatabase) -> None:
    runtime, root = life.runtime, life.root
    await operator_work.set_config(runtime, root, {"pairing_blast_timeout_seconds": 90})
    (tier, *_) = await admin_store.tiers(runtime.db, mode="chat")
    await pricing_edit.change_tier(runtime, root, tier_id=tier.id, token=tier.updated_at, values={"tag": "hemat"})
    tiers = await admin_store.tiers(runtime.db, mode="call")
    places = [pricing_edit.TierPosition(id=t.id, updated_at=t.updated_at) for t in reversed(tiers)]
    await pricing_edit.order_tiers(runtime, root, mode="call", items=places)
    promotion = await admin_store.promotion(runtime.db)
    assert promotion is not None
    await pricing_edit.change_promotion(runtime, root, token=promotion.updated_at, values={"price_idr": 2500})
    failure = await runtime.db.fetchval(
        "SELECT id::text FROM pairing_failures WHERE superseded_at IS NULL AND cause_tag = 'customer_cancelled'"
    )
    await operator_work.act_on_failure(runtime, root, failure_id=failure, action=OperatorAction.REFUNDED, note=None)
    earned = await runtime.db.fetchval("SELECT payment_request_id::text FROM chat_sessions WHERE status = 'completed'")
    await make_good.record(
        runtime, root, payment_request_id=earned, amount=500, reason="the mitra was silent", reference="TRF-1"
    )
    call = await runtime.db.fetchval("SELECT id::text FROM webhook_logs ORDER BY id LIMIT 1")
    await webhook_replay.replay(runtime, root, webhook_log_id=call)


async def _join(life: FilledDatabase) -> None:
    """Let an anonymous customer with a pending code sign into an existing account."""
    runtime = life.runtime
    phone = Identity(kind=IdentityKind.PHONE, value="+6281299990001")
    async with runtime.transaction() as tx:
        await customer_sign_in.sign_in(runtime, tx, identity=phone, caller=None, device={})
    tokens, guest = await sign_in_anonymous.sign_in_anonymously(runtime, device={}, ip_address=ADDRESS)
    claims = runtime.tokens.check(tokens.access_token, audience="public", now=runtime.now())
    caller = Actor(
        user_type=UserType.CUSTOMER, user_id=guest.id, auth_session_id=claims.auth_session_id, expires_at=2**40, ids=(guest.id,)
    )  # fmt: skip
    async with runtime.transaction() as tx:
        await customer_sign_in.sign_in(runtime, tx, identity=phone, caller=caller, device={})


@pytest.fixture(scope="module")
def life() -> Iterator[FilledDatabase]:
    """Yield the database with a runtime over it; no background job runs."""
    stack, loop = Stack(only_database=True), asyncio.new_event_loop()
    try:
        settings = read(
            {
                "ENVIRONMENT": "test",
                "DATABASE_URL": stack.database_url,
                "REDIS_URL": stack.redis_url,
                "GATEWAY_CALLBACK_TOKEN": CALLBACK_TOKEN,
            }
        )
        stage = Harness(runtime=loop.run_until_complete(open_runtime(settings)), loop=loop)
        root = stage.run(stage.runtime.db.fetchval("SELECT id::text FROM control_center_users WHERE email = $1", EMAIL))
        operator = Actor(
            user_type=UserType.OPERATOR, user_id=root, auth_session_id=ids.new_id(), expires_at=2**40, ids=(root,)
        )
        made = FilledDatabase(stage=stage, root=operator)
        stage.run(_live(made))
        yield made
        stage.run(stage.runtime.close())
    finally:
        stack.close()
        loop.close()


def test_audit_of_valid_data_finds_no_violation(life: FilledDatabase) -> None:
    books = life.stage.run(audit(life.runtime))
    check_books(books)
    states = life.stage.run(life.runtime.db.fetch("SELECT status FROM chat_sessions"))
    assert {row["status"] for row in states} == {
        "searching", "active", "expired", "closing", "completed", "cancelled", "failed",
    }  # fmt: skip
    assert (books.sessions, books.payments) == (len(states), 11)


COPY = "INSERT INTO {0} SELECT (jsonb_populate_record(t, jsonb_build_object('id', gen_random_uuid(), {1}))).* FROM {0} t WHERE {2} LIMIT 1"
ONE = "id = (SELECT id FROM {} WHERE {} ORDER BY id LIMIT 1)"
RUNNING = "(SELECT payment_request_id FROM chat_sessions WHERE status = 'active')"
HOUR = "interval '1 hour'"
NO_RECEIPTS = "DELETE FROM session_receipts;"  # they agree with the session, so another rule would find the break, too
# (rule, SQL that breaks it). Triggers and foreign keys are off while it runs. What a CHECK or an index refuses needs no
# rule of the audit.
# A tier that is on the price list or not, and a price of it at a time.
SCHEDULED = """WITH tier AS (
    INSERT INTO pricing_tiers (id, mode, minutes, price_idr, is_active, created_at, updated_at)
    VALUES (gen_random_uuid(), 'chat', 1399, 1, {}, now(), now()) RETURNING *
  ), history AS (
    INSERT INTO pricing_tiers_history (id, pricing_tier_id, change_kind, changed_at, after)
    SELECT gen_random_uuid(), id, 'created', now(), to_jsonb(tier) FROM tier
  )
  INSERT INTO pricing_schedules (id, pricing_tier_id, price_idr, starts_at, asked_by, asked_at)
  SELECT gen_random_uuid(), t.id, 1, now() + interval '{}', o.id, now()
  FROM tier AS t, (SELECT id FROM control_center_users LIMIT 1) AS o"""
BROKEN: tuple[tuple[str, str], ...] = (
    (
        "a paid request is in exactly one place",
        """UPDATE pairing_failures SET amount = amount + CASE cause_tag WHEN 'customer_cancelled' THEN 1 ELSE -1 END
           WHERE cause_tag IN ('customer_cancelled', 'all_mitras_rejected')""",
    ),
    (
        "confirmed money is earned, failed or in flight",
        COPY.format("pairing_failures", "'payment_request_id', gen_random_uuid()", "true"),
    ),
    (
        "a transaction matches its payment request and its session",
        "UPDATE customer_transactions SET type = 'extension' WHERE type = 'session'",
    ),
    ("a session matches its payment request", "UPDATE chat_sessions SET price = price + 1 WHERE status = 'completed'"),
    (
        "a searching session has a confirmed payment request",
        "UPDATE chat_sessions SET payment_request_id = NULL WHERE status = 'searching'",
    ),
    (
        "a failed or cancelled search has a pairing failure",
        COPY.format("chat_sessions", "'round_number', 0", "status = 'cancelled'"),
    ),
    (
        "a pairing failure matches its payment request",
        "UPDATE pairing_failures SET cause_tag = 'targeted_mitra_offline' WHERE cause_tag = 'customer_cancelled'",
    ),
    (
        "an extension matches its payment request",
        "UPDATE session_extensions SET requested_price = requested_price + 1 WHERE status = 'pending'",
    ),
    (
        "an extension and its payment request agree",
        "UPDATE pairing_failures SET cause_tag = 'extension_safeguard_tripped' WHERE cause_tag = 'extension_rejected'",
    ),
    (
        "a pending extension has an active or expired session",
        COPY.format(
            "payment_requests",
            "'status', 'pending', 'confirmed_at', null, 'consumed_at', null, 'gateway_invoice_id', null",
            "is_extension AND status = 'consumed'",
        ),
    ),
    (
        "a session's extended minutes are those approved",
        f"{NO_RECEIPTS} UPDATE chat_sessions SET extended_minutes = extended_minutes + 1 WHERE status = 'completed'",
    ),
    (
        "a session ends exactly after its paid time",
        "UPDATE chat_sessions SET expires_at = expires_at - interval '1 second' WHERE status = 'active'",
    ),
    (
        "a session ends exactly after its paid time",
        "UPDATE chat_sessions SET expires_at = expires_at + interval '1 second' WHERE status = 'active'",
    ),
    (
        "a consumed payment request had a listed price",
        f"""UPDATE payment_requests SET amount = 7 WHERE id = {RUNNING};
            UPDATE customer_transactions SET amount = 7 WHERE payment_request_id = {RUNNING};
            UPDATE chat_sessions SET price = 7 WHERE payment_request_id = {RUNNING}""",
    ),
    (
        "a discounted session is the customer's first",
        f"""UPDATE payment_requests SET amount = 2000, is_first_session_discount = true WHERE id = {RUNNING};
            UPDATE customer_transactions SET amount = 2000 WHERE payment_request_id = {RUNNING};
            UPDATE chat_sessions SET price = 2000, is_first_session_discount = true WHERE payment_request_id = {RUNNING}""",
    ),
    (
        "a paired session has one accepted invitation and no open one",
        """UPDATE chat_request_notifications SET response = 'MISSED' WHERE response = 'REJECTED'""",
    ),
    (
        "an open invitation belongs to the current round",
        "UPDATE chat_request_notifications SET answer_by = answer_by + interval '1 second' WHERE response IS NULL",
    ),
    (
        "a mitra who rejected is not asked again",
        COPY.format("chat_request_notifications", "'round_number', 2, 'response', 'IGNORED'", "response = 'REJECTED'"),
    ),
    (
        "a targeted search asks its mitra only",
        """UPDATE chat_sessions s SET targeted_mitra_id = (SELECT id FROM mitras WHERE id <> s.targeted_mitra_id LIMIT 1)
           WHERE targeted_mitra_id IS NOT NULL""",
    ),
    (
        "a mitra has no more sessions than the highest limit so far",
        """INSERT INTO chat_sessions (id, customer_id, mitra_id, status, created_at, paired_at, expires_at, duration_minutes)
           SELECT gen_random_uuid(), gen_random_uuid(), (SELECT id FROM mitras LIMIT 1), 'active', now(), now(), now() + interval '12 minutes', 12
           FROM generate_series(1, 4)""",
    ),
    (
        "a session has the timestamps of its state",
        "UPDATE chat_sessions SET ended_by = NULL WHERE status = 'completed'",
    ),
    (
        "the first goodbye closes a session and the second completes it",
        """INSERT INTO session_closures (id, session_id, user_type, user_id, message)
           SELECT gen_random_uuid(), id, 'mitra', mitra_id, 'bye' FROM chat_sessions WHERE status = 'closing'""",
    ),
    (
        "a goodbye is from a party of the session",
        "UPDATE session_closures SET user_id = gen_random_uuid() WHERE user_type = 'mitra'",
    ),
    (
        "the topic flag agrees with its log",
        "UPDATE chat_sessions SET topic_sensitivity = 'regular' WHERE status = 'completed'",
    ),
    (
        "seq is 1 to n without gaps",
        f"{NO_RECEIPTS} UPDATE chat_sessions SET last_seq = last_seq + 1 WHERE status = 'completed'",
    ),
    (
        "seq is 1 to n without gaps",
        """DELETE FROM chat_messages m USING chat_sessions s
           WHERE s.id = m.session_id AND s.status = 'completed' AND m.seq = 1""",
    ),
    (
        "a session has the seq of each side's newest message",
        "UPDATE chat_sessions SET mitra_sent_seq = 0 WHERE status = 'completed'",
    ),
    (
        "a text is empty if its session was blanked, and only then",
        "UPDATE chat_messages SET content = '' WHERE seq = 1",
    ),
    (
        "a text is empty if its session was blanked, and only then",
        "UPDATE chat_sessions SET blanked_at = now() WHERE status = 'completed' AND last_seq > 0",
    ),
    (
        "a text is empty if its session was blanked, and only then",
        "UPDATE session_closures SET message = ''",
    ),
    (
        "a message is from a party of the session",
        "UPDATE chat_messages SET sender_id = gen_random_uuid() WHERE seq = 1",
    ),
    (
        "messages are within the paid time",
        """UPDATE chat_messages m SET created_at = s.expires_at + interval '1 second' FROM chat_sessions s
           WHERE s.id = m.session_id AND s.status = 'completed' AND m.seq = s.last_seq""",
    ),
    (
        "messages are in the order of their times",
        """UPDATE chat_messages m SET created_at = m.created_at - interval '2 seconds' FROM chat_sessions s
           WHERE s.id = m.session_id AND m.seq = 2 AND s.paired_at < m.created_at - interval '1 minute'""",
    ),
    (
        "a read marker is at most its delivered marker, and that at most the last seq",
        "UPDATE chat_sessions SET customer_read_seq = customer_delivered_seq + 1 WHERE status = 'completed'",
    ),
    (
        "a message's status is not ahead of its session's read markers",
        "UPDATE chat_messages SET status = 'delivered' WHERE status = 'read'",
    ),
    (
        "a joined customer is anonymous and signed out, and their account is neither anonymous nor joined",
        "UPDATE auth_sessions SET revoked_at = NULL WHERE revoked_at IS NOT NULL",
    ),
    (
        "an auth session has a user, and a revoked one has no push token",
        "UPDATE auth_sessions SET push_token = 'kept' WHERE revoked_at IS NOT NULL",
    ),
    (
        "the attempts at a code are at most the highest limit so far",
        """INSERT INTO otp_requests (id, phone, ip_address, user_type, channel, attempts, expires_at)
           VALUES (gen_random_uuid(), '+6281299990001', '127.0.0.1', 'customer', 'sms', 6, now())""",
    ),
    (
        "a mitra has a presence row, and an inactive mitra is offline",
        "UPDATE mitras SET is_active = false WHERE id = (SELECT mitra_id FROM mitra_online_status WHERE is_online)",
    ),
    ("each change of presence has a log row", "DELETE FROM mitra_online_logs WHERE status = 'offline'"),
    (
        "an event has a recipient",
        f"UPDATE deliveries SET recipient_id = gen_random_uuid() WHERE {ONE.format('deliveries', 'true')}",
    ),
    (
        "an idempotency key has an answer or a request in progress",
        f"UPDATE idempotency_keys SET answer = NULL, http_status = NULL WHERE {ONE.format('idempotency_keys', 'true')}",
    ),
    (
        "a webhook call has status and result together, and without a token no effect",
        "UPDATE webhook_logs SET processing_result = NULL WHERE processing_result = 'duplicate'",
    ),
    (
        "only calls above the limit are counted instead of stored",
        "UPDATE webhook_logs SET calls = 2 WHERE processing_result = 'duplicate'",
    ),
    (
        "one webhook call confirms a payment",
        "UPDATE webhook_logs SET processing_result = 'confirmed' WHERE processing_result = 'duplicate'",
    ),
    (
        "an operator's action on a failure has one audit row",
        "DELETE FROM operator_audit_log WHERE action = 'failed_pairing.actioned'",
    ),
    (
        "an operator's change of a setting has one audit row",
        "DELETE FROM operator_audit_log WHERE action = 'config.set'",
    ),
    (
        "an operator's change of a price has one audit row",
        "DELETE FROM operator_audit_log WHERE action = 'tier.reordered'",
    ),
    (
        "a price's history is complete and ends with its current row",
        "UPDATE pricing_promotions SET price_idr = price_idr + 1",
    ),
    ("a scheduled price is of an active tier", SCHEDULED.format("false", "1000 days")),
    ("a scheduled price starts by its time", SCHEDULED.format("true", "-1000 days")),
    (
        "a price's history is complete and ends with its current row",
        """DELETE FROM pricing_tiers_history WHERE change_kind = 'created' AND pricing_tier_id IN
             (SELECT pricing_tier_id FROM pricing_tiers_history WHERE change_kind = 'updated')""",
    ),
    (
        "a session that an operator ended has one audit row",
        "UPDATE chat_sessions SET ended_by = 'operator' WHERE status = 'closing'",
    ),
    (
        "a replayed call had a valid token, and its replay has one audit row",
        "DELETE FROM operator_audit_log WHERE action = 'webhook.replayed'",
    ),
    (
        "an erased user has no personal data and no device",
        f"UPDATE customers SET erased_at = now() WHERE {ONE.format('customers', 'display_name IS NOT NULL')}",
    ),
    (
        "an erased user has no personal data and no device",
        f"UPDATE mitras SET erased_at = now() WHERE {ONE.format('mitras', 'true')}",
    ),
    (
        "an erased user has no personal data and no device",
        """INSERT INTO erasures (id, user_type, user_id, requested_by, began_at, completed_at)
             SELECT id, 'customer', customer_id, 'user', now(), now() FROM chat_sessions WHERE status = 'completed' LIMIT 1""",
    ),
    (
        "an erased user has no personal data and no device",
        """WITH account AS (SELECT account_belongs_to AS id FROM customers WHERE account_belongs_to IS NOT NULL LIMIT 1),
             joined AS (
               UPDATE customers SET account_belongs_to = account.id, joined_real_at = now(), is_anonymous = true FROM account
               WHERE customers.id = (SELECT customer_id FROM chat_sessions WHERE status = 'completed' LIMIT 1))
           INSERT INTO erasures (id, user_type, user_id, requested_by, began_at, completed_at)
             SELECT id, 'customer', id, 'user', now(), now() FROM account""",
    ),
    (
        "a search ends with its round or its time limit",
        f"UPDATE chat_sessions SET search_ends_at = now() - {HOUR} WHERE status = 'searching'",
    ),
    (
        "a wave ends by its time",
        f"UPDATE chat_sessions SET wave_number = 1, wave_ends_at = now() - {HOUR} WHERE status = 'searching'",
    ),
    (
        "a confirmed payment request has a session or an extension",
        f"UPDATE payment_requests SET status = 'confirmed', confirmed_at = now() - {HOUR} WHERE status = 'pending'",
    ),
    ("an unpaid request expires", f"UPDATE payment_requests SET expires_at = now() - {HOUR} WHERE status = 'pending'"),
    (
        "a session ends with its paid time",
        f"UPDATE chat_sessions SET paired_at = paired_at - {HOUR}, expires_at = expires_at - {HOUR} WHERE status = 'active'",
    ),
    (
        "an extension is answered by its deadline",
        f"UPDATE session_extensions SET answer_by = now() - {HOUR} WHERE status = 'pending'",
    ),
    (
        "a session is completed after its grace period",
        f"UPDATE chat_sessions SET grace_ends_at = now() - {HOUR} WHERE status IN ('expired', 'closing')",
    ),
    (
        "a silent mitra is taken offline",
        f"""UPDATE mitra_online_status SET last_heartbeat_at = now() - {HOUR} WHERE is_online;
            UPDATE app_config SET updated_at = now() - {HOUR} WHERE updated_by IS NULL;
            INSERT INTO service_processes (place, kind, since_at, alive_at, lost_at, given_up_at)
              SELECT kind, kind, now() - {HOUR}, now(), now() + {HOUR}, now() + {HOUR} FROM unnest(ARRAY['api', 'realtime']) kind""",
    ),
    (
        "outages of one kind do not overlap",
        f"""INSERT INTO outages (id, kind, began_at, ended_at)
            SELECT gen_random_uuid(), 'database', now() - n * {HOUR}, now() FROM generate_series(1, 2) n""",
    ),
    (
        "every webhook call has a result",
        f"""UPDATE webhook_logs SET http_status = NULL, processing_result = NULL, received_at = now() - {HOUR}
            WHERE processing_result = 'duplicate'""",
    ),
    (
        "an unacknowledged event becomes a push",
        f"UPDATE deliveries SET created_at = now() - {HOUR} WHERE {ONE.format('deliveries', 'true')}",
    ),
    (
        "an absence ends with its session",
        f"""{NO_RECEIPTS} INSERT INTO session_absences (id, session_id, user_type, since, declared_at)
            SELECT id, id, 'mitra', ended_at - {HOUR}, ended_at FROM chat_sessions
            WHERE status = 'completed' ORDER BY ended_at LIMIT 1;
            UPDATE chat_sessions SET ended_at = ended_at - {HOUR} WHERE id IN (SELECT session_id FROM session_absences)""",
    ),
    (
        "a refund matches its failure",
        """INSERT INTO refunds
               (id, payment_request_id, failure_id, amount, status, requested_by, requested_at, settled_at, failure_code)
             SELECT gen_random_uuid(), f.payment_request_id, f.id, f.amount + 1, 'failed', u.id, now(), now(), 'REFUSED'
             FROM pairing_failures f, control_center_users u LIMIT 1""",
    ),
    (
        "earned money goes back at most once",
        "DELETE FROM customer_transactions WHERE type = 'refund'",
    ),
    (
        "earned money goes back at most once",
        "UPDATE refunds SET amount = 12001 WHERE failure_id IS NULL",
    ),
    (
        "a refund of earned money has one audit row",
        "DELETE FROM operator_audit_log WHERE action = 'payment.refunded_by_hand'",
    ),
    (
        "the gateway is asked about an open refund",
        f"""INSERT INTO refunds (id, payment_request_id, failure_id, amount, requested_by, requested_at, ask_at)
              SELECT gen_random_uuid(), p.id, f.id, f.amount, u.id, now() - {HOUR}, now() - {HOUR}
              FROM pairing_failures f JOIN payment_requests p ON p.id = f.payment_request_id, control_center_users u
              WHERE p.status = 'failed_pairing' AND f.superseded_at IS NULL AND f.operator_action IS NULL LIMIT 1""",
    ),
    (
        "no moment of a session is credited twice",
        """INSERT INTO session_time_credits (id, session_id, reason, outage_id, began_at, ended_at, milliseconds)
             SELECT gen_random_uuid(), id, reason, gen_random_uuid(), now() - interval '9 s', now() - interval '4 s', 5000
             FROM chat_sessions, unnest(ARRAY['database', 'realtime']) AS reason WHERE status = 'active';
           UPDATE chat_sessions SET expires_at = expires_at + interval '10 s' WHERE status = 'active'""",
    ),
    (
        "an outage is credited when it is over",
        f"""INSERT INTO outages (id, kind, began_at, ended_at, credit_at)
              SELECT gen_random_uuid(), 'database', now() - 2 * {HOUR}, now() - {HOUR}, now() - {HOUR}""",
    ),
    (
        "an erasure is completed",
        """INSERT INTO erasures (id, user_type, user_id, requested_by, began_at)
             SELECT id, 'customer', id, 'user', now() - interval '1 day' FROM customers LIMIT 1""",
    ),
    (
        "a completed session has a receipt that agrees with it",
        """UPDATE session_receipts SET body = jsonb_set(body::jsonb, '{messages}', '99')::text""",
    ),
    (
        "a completed session has a receipt that agrees with it",
        """INSERT INTO session_receipts (id, session_id, talked_until, completed_at)
             SELECT gen_random_uuid(), gen_random_uuid(), min(created_at), min(created_at) FROM chat_sessions;
           DELETE FROM session_receipts WHERE signed_at IS NOT NULL;
           UPDATE session_receipts SET body = '{}', signed_at = now(), key_id = 'k', signature = 'x'""",
    ),
    (
        "a receipt is of a completed session",
        """INSERT INTO session_receipts (id, session_id, talked_until, completed_at)
             SELECT gen_random_uuid(), id, now(), now() FROM chat_sessions WHERE status = 'active' LIMIT 1""",
    ),
    (
        "the receipt of a completed session is signed",
        f"""UPDATE session_receipts SET body = NULL, key_id = NULL, signature = NULL, signed_at = NULL,
             completed_at = now() - {HOUR}""",
    ),
    (
        "a block belongs to an account and to a session of its two",
        f"""INSERT INTO blocks (id, customer_id, mitra_id, blocked_by, session_id, holds_since, created_at)
             SELECT gen_random_uuid(), c.id, m.id, 'mitra', gen_random_uuid(), now() + {HOUR}, now()
             FROM customers AS c, mitras AS m WHERE c.account_belongs_to IS NULL LIMIT 1""",
    ),
    (
        "two people are not paired after a block",
        """INSERT INTO blocks (id, customer_id, mitra_id, blocked_by, session_id, holds_since, created_at)
             SELECT gen_random_uuid(), s.customer_id, s.mitra_id, 'customer', s.id, s.paired_at - interval '1 s', s.paired_at
             FROM chat_sessions AS s JOIN customers AS c ON c.id = s.customer_id
             WHERE s.mitra_id IS NOT NULL AND c.account_belongs_to IS NULL LIMIT 1""",
    ),
    (
        "a blocked account has no pending payment request",
        """UPDATE customers SET blocked_at = now(), block_reason = 'x'
           WHERE id IN (SELECT customer_id FROM payment_requests WHERE status = 'pending')""",
    ),
    (
        "the next month has partitions",
        """DO $$ DECLARE name regclass; BEGIN
             FOR name IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'webhook_logs'::regclass LOOP
               EXECUTE format('ALTER TABLE webhook_logs DETACH PARTITION %s', name);
             END LOOP;
           END $$""",
    ),
)


def test_every_audit_rule_has_a_case_that_breaks_it() -> None:
    assert {rule for rule, _ in BROKEN} == {rule.name for rule in RULES}
    assert len({rule.name for rule in RULES}) == len(RULES)


async def broken(life: FilledDatabase, *breaks: str) -> list[Violation]:
    """Return what the audit finds after these statements, which are undone."""
    async with life.runtime.db.pool.acquire() as connection:
        transaction: Any = connection.transaction()
        await transaction.start()
        try:
            await connection.execute("SET LOCAL session_replication_role = replica")
            for sql in breaks:
                await connection.execute(sql)
            return (await check(life.runtime, connection, overdue=True)).violations
        finally:
            await transaction.rollback()


@pytest.mark.parametrize(("rule", "breaks"), BROKEN, ids=lambda value: value[:40].replace(" ", "_"))
def test_audit_reports_only_the_broken_rule(life: FilledDatabase, rule: str, breaks: str) -> None:
    found = life.stage.run(broken(life, breaks))
    assert {one.rule for one in found} == {rule}
    assert all(one.id and one.detail and not one.detail.endswith(": ") for one in found)  # with the cause behind it


def of_rule(rule: str, found: list[Violation]) -> set[Violation]:
    return {one for one in found if one.rule == rule}


# (rule, what the service goes on to do)
GOES_ON = (
    (
        "confirmed money is earned, failed or in flight",
        COPY.format(
            "payment_requests",
            "'status', 'confirmed', 'consumed_at', null, 'gateway_invoice_id', null",
            "status = 'consumed' AND NOT is_extension AND NOT is_first_session_discount",
        ),
    ),
    (
        "each change of presence has a log row",
        """INSERT INTO mitra_online_logs (id, mitra_id, status, timestamp)
             SELECT gen_random_uuid(), mitra_id, CASE WHEN is_online THEN 'offline' ELSE 'online' END, now()
             FROM mitra_online_status;
           UPDATE mitra_online_status SET is_online = NOT is_online, last_heartbeat_at = now()""",
    ),
)


@pytest.mark.parametrize(("rule", "goes_on"), GOES_ON)
def test_accepted_violation_stays_the_same_while_the_service_goes_on(
    life: FilledDatabase, rule: str, goes_on: str
) -> None:
    (breaks,) = [sql for name, sql in BROKEN if name == rule]
    before, after = (of_rule(rule, life.stage.run(broken(life, *sql))) for sql in ((breaks,), (breaks, goes_on)))
    assert before == after


# (rule, what comes first, table, condition of its row, the ways in which the row breaks the rule)
WAYS = (
    (
        "an erased user has no personal data and no device",
        "erased_at = now(), is_active = false, phone = '#1', push_token = NULL",
        "mitras",
        "true",
        [
            "is_active = true",
            "phone = '+6281'",
            "is_active = true, phone = '+6281'",
            "push_token = 'x'",
            "legacy_uid = 'x'",
        ],
    ),
    (
        "a joined customer is anonymous and signed out, and their account is neither anonymous nor joined",
        "usp_seen = true",
        "customers",
        "account_belongs_to IS NOT NULL",
        [
            "is_anonymous = false",
            "account_belongs_to = (SELECT id FROM customers WHERE is_anonymous AND account_belongs_to IS NULL LIMIT 1)",
            "account_belongs_to = id",
        ],
    ),
    (
        "an auth session has a user, and a revoked one has no push token",
        "revoked_at = NULL, push_token = NULL",
        "auth_sessions",
        "user_type = 'mitra'",
        [
            "user_type = 'customer'",
            "revoked_at = now(), push_token = 'x'",
            "rotated_at = now(), previous_token_hash = NULL",
            "rotated_at = NULL, previous_token_hash = 'x'",
        ],
    ),
    (
        "an idempotency key has an answer or a request in progress",
        "resource_id = (SELECT id FROM payment_requests LIMIT 1), claimed_real_at = now()",
        "idempotency_keys",
        "true",
        [
            "answer = NULL",
            "http_status = NULL",
            "answer = NULL, http_status = NULL, resource_id = NULL",
            "answer = NULL, http_status = NULL, claimed_real_at = NULL",
        ],
    ),
    (
        "a webhook call has status and result together, and without a token no effect",
        "token_valid = true",
        "webhook_logs",
        "processing_result = 'duplicate'",
        [
            "http_status = NULL",
            "processing_result = NULL",
            "token_valid = false",
            "token_valid = false, http_status = 401, replay_of = id",
        ],
    ),
    (
        "only calls above the limit are counted instead of stored",
        "token_valid = true",
        "webhook_logs",
        "processing_result = 'duplicate'",
        [
            "calls = 0",
            "calls = 2",
            "bytes = 1",
            "processing_result = 'flood', token_valid = false",
            "processing_result = 'flood', bytes = 1, body_sha256 = 'x'",
        ],
    ),
    (
        "messages are within the paid time",
        "status = status",
        "chat_messages",
        "seq = 1",
        ["created_at = created_at - interval '1 day'", "created_at = created_at + interval '1 day'"],
    ),
    (
        "a message's status is not ahead of its session's read markers",
        "status = 'delivered', delivered_at = now(), read_at = NULL",
        "chat_messages",
        "seq = 1",
        [
            "status = 'sent'",
            "delivered_at = NULL",
            "status = 'read', read_at = now(), delivered_at = NULL",
            "seq = 9999",
        ],
    ),
    (
        "a session matches its payment request",
        "price = price",
        "chat_sessions",
        "status = 'active'",
        [
            "price = price + 1",
            "is_first_session_discount = NOT is_first_session_discount",
            "customer_id = (SELECT id FROM customers AS c WHERE c.id <> customer_id LIMIT 1)",
            "payment_request_id = (SELECT id FROM payment_requests AS p WHERE p.is_extension LIMIT 1)",
        ],
    ),
    (
        "an extension matches its payment request",
        "requested_price = requested_price",
        "session_extensions",
        "true",
        [
            "requested_price = requested_price + 1",
            "session_id = (SELECT id FROM chat_sessions AS s WHERE s.id <> session_id LIMIT 1)",
        ],
    ),
)


@pytest.mark.parametrize(("rule", "first", "table", "which", "ways"), WAYS, ids=[rule[:40] for rule, *_ in WAYS])
def test_each_way_to_break_a_rule_is_a_violation_of_its_own(
    life: FilledDatabase, rule: str, first: str, table: str, which: str, ways: list[str]
) -> None:
    chosen = f"SELECT set_config('sesi.row', id::text, true) FROM {table} WHERE {which} ORDER BY id LIMIT 1"
    row = "id = current_setting('sesi.row')::uuid"
    sets = [[f"UPDATE {table} SET {one} WHERE {row}" for one in (first, way)] for way in ways]
    found = [of_rule(rule, life.stage.run(broken(life, chosen, *both))) for both in sets]
    assert all(found)
    assert len({frozenset(one) for one in found}) == len(ways)
