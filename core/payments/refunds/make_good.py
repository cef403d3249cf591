"""An operator gives earned money back: through the gateway, or by hand (docs/product.md#making-good).

The chat is not touched. All refunds of a payment are made under its lock, so together they are at most what was paid.
"""

from typing import Any

from core.accounts.operators import store as operators
from core.base.actor import Actor
from core.base.errors import NotFound
from core.deliveries import events
from core.idempotency import run as run_once
from core.idempotency.rules import KeyedRequest
from core.payments import store as payments
from core.payments.ledger import store as ledger
from core.payments.refunds import apply, refund, rules, store, transitions
from core.payments.refunds.rules import NotRefundable, PaymentNotConsumed, RefundExceedsPaid
from core.payments.refunds.store import Refund
from core.payments.states import PaymentStatus
from core.payments.store import PaymentRequest
from core.runtime.container import Runtime
from core.storage.transaction import Tx
from core.telemetry import metrics

ACCEPTED, CREATED = 202, 201  # HTTP status of the answers for idempotency keys


async def request(
    runtime: Runtime,
    actor: Actor,
    *,
    payment_request_id: str,
    amount: int,
    reason: str,
    key: KeyedRequest | None = None,
) -> str:
    """Ask the gateway to give back `amount` Rupiah of a consumed payment. Return the refund's id.

    A repeat with the same key returns the first id. Without a key, so does a repeat by the same operator with the same
    amount and reason while that refund is open.

    Raises RefundsDisabled, NotFound, PaymentNotConsumed, RefundExceedsPaid, NotRefundable, ValidationFailed,
    IdempotencyMismatch, IdempotencyInFlight.
    """
    words = rules.checked_note("reason", reason)
    refund.check_enabled(runtime)
    async with run_once.transaction(runtime, key) as idempotent:
        if (first := idempotent.repeated(str)) is not None:
            return first
        tx = idempotent.tx
        payment = await _lock_consumed(tx, payment_request_id)
        words = await refund.kept_words(tx, payment, words)
        refunds = await store.of_earned(tx, payment.id)
        if key is None and (earlier := _under_way(refunds, actor, amount=amount, reason=words)) is not None:
            return earlier.id
        refund_id = await _request(tx, actor, payment, refunds, amount=amount, reason=words)
        await idempotent.keep(refund_id, http_status=ACCEPTED)
    return refund_id


def _under_way(refunds: list[Refund], actor: Actor, *, amount: int, reason: str | None) -> Refund | None:
    """Return the open refund that an operator has asked for in the same words; None without one."""
    asked = (actor.user_id, amount, reason)
    return next((one for one in refunds if one.is_open and (one.requested_by, one.amount, one.reason) == asked), None)


async def _request(
    tx: Tx, actor: Actor, payment: PaymentRequest, refunds: list[Refund], *, amount: int, reason: str | None
) -> str:
    _check_amount(payment, refunds, amount)
    if any(one.may_have_paid for one in refunds):
        raise NotRefundable(details={"reason": "refund_failed"})
    await refund.check_refundable(tx, payment.id)
    refund_id = await transitions.request(
        tx,
        payment_request_id=payment.id,
        failure_id=None,
        amount=amount,
        reason=reason,
        operator_id=actor.user_id,
    )
    tx.count(metrics.REFUNDS.labels("requested"))
    events.deadline(tx, tx.now)
    after = {"refund_id": refund_id, "amount": amount, "reason": reason}
    await _record(tx, actor, payment, "payment.refund_requested", after=after)
    return refund_id


async def record(
    runtime: Runtime,
    actor: Actor,
    *,
    payment_request_id: str,
    amount: int,
    reason: str,
    reference: str,
    key: KeyedRequest | None = None,
) -> str:
    """Record that an operator has given back `amount` Rupiah of a consumed payment by hand. Return the refund's id.

    A repeat with the same reference or key changes nothing and returns the id of the first. Raises NotFound,
    PaymentNotConsumed, RefundExceedsPaid, ValidationFailed, IdempotencyMismatch, IdempotencyInFlight.
    """
    words = rules.checked_note("reason", reason)
    rules.check_reference(reference)
    async with run_once.transaction(runtime, key) as idempotent:
        if (first := idempotent.repeated(str)) is not None:
            return first
        tx = idempotent.tx
        payment = await _lock_consumed(tx, payment_request_id)
        refund_id = await store.by_hand(tx, payment.id, reference)
        if refund_id is None:
            refund_id = await _record_done(tx, actor, payment, amount=amount, reason=words, reference=reference)
        await idempotent.keep(refund_id, http_status=CREATED)
    return refund_id


async def _record_done(
    tx: Tx, actor: Actor, payment: PaymentRequest, *, amount: int, reason: str | None, reference: str
) -> str:
    _check_amount(payment, await store.of_earned(tx, payment.id), amount)
    reason = await refund.kept_words(tx, payment, reason)
    refund_id = await transitions.record(
        tx,
        payment_request_id=payment.id,
        amount=amount,
        reason=reason,
        operator_id=actor.user_id,
        reference=await refund.kept_words(tx, payment, reference),
    )
    await ledger.refund(tx, payment_request_id=payment.id, refund_id=refund_id, amount=amount)
    tx.count(metrics.REFUNDS.labels("by_hand"))
    after = {"refund_id": refund_id, "amount": amount, "reason": reason}  # the refund has the reference
    await _record(tx, actor, payment, "payment.refunded_by_hand", after=after)
    return refund_id


async def _lock_consumed(tx: Tx, payment_request_id: str) -> PaymentRequest:
    payment = await payments.lock(tx, payment_request_id)
    if payment is None:
        raise NotFound
    if payment.status is not PaymentStatus.CONSUMED:
        raise PaymentNotConsumed
    return payment


def _check_amount(payment: PaymentRequest, refunds: list[Refund], amount: int) -> None:
    """Raise RefundExceedsPaid unless `amount` is from 1 to what the payment's refunds leave of it."""
    left = store.left_of(payment.amount, refunds)
    if not 1 <= amount <= left:
        raise RefundExceedsPaid(details={"refundable": left})


async def _record(tx: Tx, actor: Actor, payment: PaymentRequest, action: str, *, after: dict[str, Any]) -> None:
    """Tell the customer, and write the audit row of what the operator did."""
    await apply.tell_customer(tx, payment)
    await operators.audit(tx, actor.user_id, action, "payment_request", payment.id, after=after)
