"""The only places where money moves. Each joins the caller's transaction; the database checks conservation at commit."""

from core.base.machine import check_edge
from core.events.signals import PaymentConfirmed
from core.ledger import store as ledger
from core.pairing.rules import CauseTag
from core.pairing_failures import store as failures
from core.payments import store as payments
from core.payments.rules import Case
from core.payments.states import EDGES, PaymentStatus
from core.payments.store import PaymentRequest
from core.pricing import store as pricing
from core.steps import announce
from core.storage.database import Tx


class MoneyMoved(Exception):
    """Somebody moved this payment between our look and our statement: the transaction must not commit."""


async def consume(tx: Tx, payment: PaymentRequest, *, session_id: str) -> None:
    """confirmed -> consumed, with its one transaction row: money is earned here (contract 4)."""
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
    """-> failed_pairing, with its one live failure (contract 4)."""
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


async def take(
    tx: Tx, payment: PaymentRequest, account: tuple[str, ...], *, late: bool, invoice_id: str | None
) -> Case:
    """Money has come in for a locked request that was not paid before: confirm it, or record why it can't become a chat.

    The caller holds the customer's account. Returns CONFIRMED, NOT_PAIRABLE or LATE.
    """
    cause = CauseTag.EXTENSION_SAFEGUARD_TRIPPED if payment.is_extension else CauseTag.PAYMENT_SESSION_EXPIRED
    if late:
        await fail(tx, payment, cause, invoice_id=invoice_id)
        await announce.payment_updated(tx, [payment])
        return Case.LATE
    if payment.extends_session_id is not None:
        # Paid in time and told late, while the customer has asked for another extension: there is one at a time.
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
    if payment.is_extension:  # of an ordinary request `pairing_status` reports the search
        await announce.payment_updated(tx, [payment])
    tx.signal(
        PaymentConfirmed(
            payment_request_id=payment.id,
            is_extension=payment.is_extension,
            customer_id=payment.customer_id if payment.amount else None,  # for 0 nobody becomes a customer who paid
        )
    )
    return Case.CONFIRMED
