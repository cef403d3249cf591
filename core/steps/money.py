"""Confirm, consume and fail payment requests, in the caller's transaction.

The database checks at commit that money is conserved. One transition is elsewhere: core/flows/pairing_fallback.py
confirms a failed request again. docs/product.md#states-of-a-payment-request has all transitions.
"""

from core.base.machine import check_edge
from core.events.signals import PaymentConfirmed
from core.ledger import store as ledger
from core.pairing_failures import store as failures
from core.pairing_failures.causes import CauseTag
from core.payments import store as payments
from core.payments.rules import Case
from core.payments.states import EDGES, PaymentStatus
from core.payments.store import PaymentRequest
from core.pricing import store as pricing
from core.steps import announce
from core.storage.database import Tx


class MoneyMoved(Exception):
    """Another transaction changed this payment after it was read: the caller's transaction must not commit."""


async def consume(tx: Tx, payment: PaymentRequest, *, session_id: str) -> None:
    """Consume a confirmed payment and insert its row in the ledger: the money is earned now. Raises MoneyMoved."""
    check_edge(EDGES, payment.status, PaymentStatus.CONSUMED)
    if not await payments.consume(tx, payment.id):
        raise MoneyMoved(payment.id)
    await ledger.earn(
        tx,
        customer_id=payment.customer_id,
        session_id=session_id,
        payment_request_id=payment.id,
        kind="extension" if payment.is_extension else "session",
        amount=payment.amount,
    )


async def fail(tx: Tx, payment: PaymentRequest, cause: CauseTag, *, invoice_id: str | None = None) -> None:
    """Move a payment to `failed_pairing` and insert its pairing failure. Raises MoneyMoved."""
    check_edge(EDGES, payment.status, PaymentStatus.FAILED_PAIRING)
    if not await payments.fail(tx, payment.id, before=payment.status, invoice_id=invoice_id):
        raise MoneyMoved(payment.id)
    await failures.create(
        tx,
        payment_request_id=payment.id,
        customer_id=payment.customer_id,
        targeted_mitra_id=payment.targeted_mitra_id,
        cause_tag=cause.value,
        amount=payment.amount,
    )


async def record_payment(
    tx: Tx, payment: PaymentRequest, account: tuple[str, ...], *, late: bool, invoice_id: str | None
) -> Case:
    """Record money for a locked request that was not paid before: confirm it, or fail it if it can't lead to a chat.

    The caller must hold the customer's account. `late` says that the money came after the deadline. Returns CONFIRMED,
    NOT_PAIRABLE or LATE. Raises MoneyMoved.
    """
    cause = CauseTag.EXTENSION_SAFEGUARD_TRIPPED if payment.is_extension else CauseTag.PAYMENT_SESSION_EXPIRED
    if late:
        await fail(tx, payment, cause, invoice_id=invoice_id)
        await announce.payment_updated(tx, [payment])
        return Case.LATE
    if payment.extends_session_id is not None:
        # The money was paid in time but reported late, and another extension is under way. Only one can be.
        blocked = await payments.extension_under_way(tx, payment.extends_session_id, but=payment.id) is not None
    else:
        blocked = await payments.blocking(tx, list(account), but=payment.id) is not None
        if not blocked and payment.is_first_session_discount:
            past = await pricing.past_of(tx, list(account), but_pending=False, but=payment.id)
            blocked = past.ever_paired or past.other_discounted_request
    if blocked:
        await fail(tx, payment, cause, invoice_id=invoice_id)
        await announce.payment_updated(tx, [payment])
        return Case.NOT_PAIRABLE
    check_edge(EDGES, payment.status, PaymentStatus.CONFIRMED)
    if not await payments.confirm(tx, payment.id, invoice_id=invoice_id):
        raise MoneyMoved(payment.id)
    if payment.is_extension:  # for a session, `pairing_status` reports the search
        await announce.payment_updated(tx, [payment])
    tx.emit(
        PaymentConfirmed(
            payment_request_id=payment.id,
            is_extension=payment.is_extension,
            # A free request does not make a paying customer.
            customer_id=payment.customer_id if payment.amount else None,
        )
    )
    return Case.CONFIRMED
