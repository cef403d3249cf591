"""An operator gives earned money back: through the gateway, or by hand (docs/product.md#making-good).

The chat is not touched. All refunds of a payment are made under its lock, so together they are at most what was paid.
"""

from typing import Any

from core.accounts.operators import store as operators
from core.base import shown_texts
from core.base.actor import Actor
from core.base.errors import NotFound
from core.deliveries import events
from core.payments import store as payments
from core.payments.ledger import store as ledger
from core.payments.refunds import apply, refund, rules, store, transitions
from core.payments.refunds.rules import NotRefundable, PaymentNotConsumed, RefundExceedsPaid
from core.payments.states import PaymentStatus
from core.payments.store import PaymentRequest
from core.runtime.container import Runtime
from core.storage.transaction import Tx
from core.telemetry import metrics


async def request(runtime: Runtime, actor: Actor, *, payment_request_id: str, amount: int, reason: str) -> str:
    """Ask the gateway to give back `amount` Rupiah of a consumed payment. Return the refund's id.

    Raises RefundsDisabled, NotFound, PaymentNotConsumed, RefundExceedsPaid, NotRefundable, ValidationFailed.
    """
    words = rules.checked_note("reason", reason)
    refund.check_enabled(runtime)
    async with runtime.transaction() as tx:
        payment = await _lock_consumed(tx, payment_request_id)
        refunds = await _check_amount(tx, payment, amount)
        if any(one.may_have_paid for one in refunds):
            raise NotRefundable(details={"reason": "refund_failed"})
        await refund.check_refundable(tx, payment.id)
        words = await refund.kept_words(tx, payment, words)
        refund_id = await transitions.request(
            tx,
            payment_request_id=payment.id,
            failure_id=None,
            amount=amount,
            reason=words,
            operator_id=actor.user_id,
        )
        tx.count(metrics.REFUNDS.labels("requested"))
        events.deadline(tx, tx.now)
        after = {"refund_id": refund_id, "amount": amount, "reason": words}
        await _record(tx, actor, payment, "payment.refund_requested", after=after)
    return refund_id


async def record(
    runtime: Runtime, actor: Actor, *, payment_request_id: str, amount: int, reason: str, reference: str
) -> str:
    """Record that an operator has given back `amount` Rupiah of a consumed payment by hand. Return the refund's id.

    A repeat with the same reference changes nothing and returns the id of the first. Raises NotFound,
    PaymentNotConsumed, RefundExceedsPaid, ValidationFailed.
    """
    words = rules.checked_note("reason", reason)
    shown_texts.check_text("reference", reference, most=rules.LONGEST_REFERENCE)
    async with runtime.transaction() as tx:
        payment = await _lock_consumed(tx, payment_request_id)
        known = await store.by_hand(tx, payment.id, reference)
        if known is not None:
            return known
        await _check_amount(tx, payment, amount)
        words = await refund.kept_words(tx, payment, words)
        refund_id = await transitions.record(
            tx,
            payment_request_id=payment.id,
            amount=amount,
            reason=words,
            operator_id=actor.user_id,
            reference=reference,
        )
        await ledger.refund(tx, payment_request_id=payment.id, refund_id=refund_id, amount=amount)
        tx.count(metrics.REFUNDS.labels("by_hand"))
        after = {"refund_id": refund_id, "amount": amount, "reason": words, "reference": reference}
        await _record(tx, actor, payment, "payment.refunded_by_hand", after=after)
    return refund_id


async def _lock_consumed(tx: Tx, payment_request_id: str) -> PaymentRequest:
    payment = await payments.lock(tx, payment_request_id)
    if payment is None:
        raise NotFound
    if payment.status is not PaymentStatus.CONSUMED:
        raise PaymentNotConsumed
    return payment


async def _check_amount(tx: Tx, payment: PaymentRequest, amount: int) -> list[store.Refund]:
    """Return the payment's refunds. Raises RefundExceedsPaid if they leave less than `amount`."""
    refunds = await store.of_earned(tx, payment.id)
    left = store.left_of(payment.amount, refunds)
    if amount > left:
        raise RefundExceedsPaid(details={"refundable": left})
    return refunds


async def _record(tx: Tx, actor: Actor, payment: PaymentRequest, action: str, *, after: dict[str, Any]) -> None:
    """Tell the customer, and write the audit row of what the operator did."""
    await apply.tell_customer(tx, payment)
    await operators.audit(tx, actor.user_id, action, "payment_request", payment.id, after=after)
