"""Change the state of payment requests in the caller's transaction, with the rows and signals that each implies.

No other module does. docs/product.md#states-of-a-payment-request has all transitions and their causes. The database
checks at commit that money is conserved.
"""

from collections.abc import Sequence

import attrs

from core.accounts.customers import block_account
from core.accounts.customers import erasing as customer_erasing
from core.accounts.customers import store as customers
from core.base import ids
from core.base.actor import Actor
from core.base.field_types import MitraId
from core.base.machine import check_edge
from core.events.signals import InvoiceVoided, PaymentConfirmed
from core.payments import announce, transitions
from core.payments import store as payments
from core.payments.failures import store as failures
from core.payments.failures.causes import CauseTag, SubCause, Why
from core.payments.gateway_calls import CallCase
from core.payments.ledger import store as ledger
from core.payments.pricing import store as pricing
from core.payments.states import EDGES, PaymentStatus
from core.payments.store import PaymentRequest
from core.storage.transaction import Reader, Tx
from core.telemetry import metrics, traces


class MoneyMoved(Exception):
    """Another transaction changed this payment after it was read: the caller's transaction must not commit."""


async def create(tx: Tx, request: PaymentRequest, account: tuple[str, ...]) -> PaymentRequest:
    """Insert a pending request and return it. At a price of 0 it is confirmed at once, or fails.

    `account` are the ids of the customer's account, which the caller must hold.
    """
    await transitions.create(tx, request)
    _count(tx, "requested", request)
    if request.amount > 0:
        return request
    await record_seen(tx, request, account)
    recorded = await payments.get(tx, request.id)
    assert recorded is not None
    return recorded


async def consume(tx: Tx, payment: PaymentRequest, *, session_id: str) -> None:
    """Consume a confirmed payment and insert its row in the ledger: the money is earned now. Raises MoneyMoved."""
    check_edge(EDGES, payment.status, PaymentStatus.CONSUMED)
    if not await transitions.consume(tx, payment.id):
        raise MoneyMoved(payment.id)
    _count(tx, "consumed", payment)
    await ledger.earn(
        tx,
        customer_id=payment.customer_id,
        session_id=session_id,
        payment_request_id=payment.id,
        kind="extension" if payment.is_extension else "session",
        amount=payment.amount,
    )


async def fail(
    tx: Tx,
    payment: PaymentRequest,
    why: Why,
    *,
    invoice_id: str | None = None,
    short_amount: int | None = None,
) -> None:
    """Move a payment to `failed_pairing` and insert its pairing failure. Raises MoneyMoved.

    `short_amount` is what was paid, if that is less than the amount: then it becomes the amount.
    """
    check_edge(EDGES, payment.status, PaymentStatus.FAILED_PAIRING)
    if not await transitions.fail(
        tx, payment.id, before=payment.status, invoice_id=invoice_id, short_amount=short_amount
    ):
        raise MoneyMoved(payment.id)
    payment = attrs.evolve(payment, amount=payment.amount if short_amount is None else short_amount)
    _count(tx, "failed", payment)
    await _create_failure(tx, payment, why)


async def _create_failure(tx: Tx, payment: PaymentRequest, why: Why) -> None:
    await failures.create(
        tx,
        payment_request_id=payment.id,
        customer_id=payment.customer_id,
        targeted_mitra_id=payment.targeted_mitra_id,
        why=why,
        amount=payment.amount,
    )


def cause_of_late_money(payment: PaymentRequest) -> CauseTag:
    """Return the cause of money that comes too late, or while it can't lead to a chat."""
    return CauseTag.EXTENSION_SAFEGUARD_TRIPPED if payment.is_extension else CauseTag.PAYMENT_SESSION_EXPIRED


async def obstacle(reader: Reader, payment: PaymentRequest, account: tuple[str, ...]) -> Why | None:
    """Return why money for a request could not lead to a chat, or to an extension; None if it can.

    The caller must hold the customer's account, whose ids are `account`.
    """
    cause = cause_of_late_money(payment)
    if payment.extends_session_id is not None:
        # The money was paid in time but reported late, and another extension is under way. Only one can be.
        other = await payments.extension_under_way(reader, payment.extends_session_id, but=payment.id)
        return None if other is None else Why(cause, SubCause.DOUBLE, other)
    in_progress = await payments.in_progress(reader, list(account), but=payment.id)
    if in_progress is not None:
        sub = SubCause.DOUBLE if in_progress.session_id is None else SubCause.LIVE_SESSION
        return Why(cause, sub, in_progress.payment_request_id)
    if await customer_erasing.is_erased(reader, payment.customer_id):  # an erased customer does not wait for a chat
        return Why(cause, SubCause.ERASED)
    if not payment.is_first_session_discount:
        return None
    past = await pricing.past_of(reader, list(account), but_pending=False, but=payment.id)
    return Why(cause, SubCause.DISCOUNT_USED) if past.ever_paired or past.other_discounted_request else None


async def _why_late(reader: Reader, payment: PaymentRequest, account: tuple[str, ...]) -> Why:
    """Return what happened to money that came when its request was expired or abandoned."""
    cause = cause_of_late_money(payment)
    twin_id = await payments.next_paid(reader, list(account), payment)
    if twin_id is not None:
        return Why(cause, SubCause.DOUBLE, twin_id)
    if payment.extends_session_id is not None and not await payments.is_held(reader, payment.extends_session_id):
        return Why(cause, SubCause.SESSION_ENDED)
    return Why(cause, SubCause.GIVEN_UP if payment.status is PaymentStatus.ABANDONED else SubCause.LATE)


async def record_seen(tx: Tx, payment: PaymentRequest, account: tuple[str, ...]) -> CallCase:
    """Record money that came without an invoice for a locked pending request: confirm it, or fail it for an obstacle.

    The caller must hold the customer's account. Returns CONFIRMED or NOT_PAIRABLE. Raises MoneyMoved.
    """
    why = await obstacle(tx, payment, account)
    if why is not None:
        await _fail_and_announce(tx, payment, why, invoice_id=None)
        return CallCase.NOT_PAIRABLE
    await confirm(tx, payment, invoice_id=None)
    return CallCase.CONFIRMED


async def fail_paid(
    tx: Tx, payment: PaymentRequest, account: tuple[str, ...], *, is_late: bool, invoice_id: str
) -> None:
    """Record money for a locked request that can't lead to a chat: it is late or has an obstacle. Raises MoneyMoved.

    The caller must hold the customer's account, whose ids are `account`.
    """
    why = await why_failed(tx, payment, account, is_late=is_late)
    await _fail_and_announce(tx, payment, why, invoice_id=invoice_id)


async def why_failed(reader: Reader, payment: PaymentRequest, account: tuple[str, ...], *, is_late: bool) -> Why:
    """Return why money that is late or has an obstacle can't lead to a chat."""
    why = await _why_late(reader, payment, account) if is_late else await obstacle(reader, payment, account)
    assert why is not None
    return why


async def _fail_and_announce(tx: Tx, payment: PaymentRequest, why: Why, *, invoice_id: str | None) -> None:
    await fail(tx, payment, why, invoice_id=invoice_id)
    await announce.payment_updated(tx, [payment])


async def fail_short(tx: Tx, payment: PaymentRequest, *, amount: int, invoice_id: str) -> None:
    """Record money for a locked request that is less than its invoice asked for, for an operator. Raises MoneyMoved."""
    sub_cause = SubCause.GIVEN_UP if payment.status is PaymentStatus.ABANDONED else None
    await fail(tx, payment, Why(CauseTag.PAYMENT_SHORT, sub_cause), invoice_id=invoice_id, short_amount=amount)
    await announce.payment_updated(tx, [payment])


async def accept(tx: Tx, payment: PaymentRequest, *, failure_id: str, amount: int | None = None) -> None:
    """Accept a short payment: its failure is superseded, and its pairing follows the commit.

    For what it is, or with `amount` as one that is complete now. The caller must hold the locks of both. Raises
    MoneyMoved.
    """
    await failures.supersede(tx, failure_id)
    if amount is not None:
        await change_short(tx, payment, amount=amount)
    if not await transitions.accept(tx, payment.id):
        raise MoneyMoved(payment.id)
    await _announce_confirmed(tx, payment)


async def change_short(tx: Tx, payment: PaymentRequest, *, amount: int) -> None:
    """Record how many Rupiah of a short payment are there now. The caller must hold its lock. Raises MoneyMoved."""
    if not await transitions.change_short(tx, payment.id, amount=amount):
        raise MoneyMoved(payment.id)


async def confirm(tx: Tx, payment: PaymentRequest, *, invoice_id: str | None) -> None:
    """Record money for a locked request without an obstacle; its pairing follows the commit. Raises MoneyMoved."""
    check_edge(EDGES, payment.status, PaymentStatus.CONFIRMED)
    if not await transitions.confirm(tx, payment.id, invoice_id=invoice_id):
        raise MoneyMoved(payment.id)
    await _announce_confirmed(tx, payment)


async def _announce_confirmed(tx: Tx, payment: PaymentRequest) -> None:
    """Count a confirmed payment, and begin what it pays for after the commit."""
    await _keep_traceparent(tx, payment.id)
    _count(tx, "confirmed", payment)
    if payment.is_extension:  # for a session, `pairing_status` reports the search
        await announce.payment_updated(tx, [payment])
    tx.emit(
        PaymentConfirmed(
            payment_request_id=payment.id,
            is_extension=payment.is_extension,
            # A free request does not make a paying customer.
            customer_id=payment.customer_id if payment.amount else None,
            traceparent=traces.traceparent(),
        )
    )


async def _keep_traceparent(tx: Tx, payment_request_id: str) -> None:
    """Store the current span's traceparent with a payment request: its pairing goes on from here (docs/traces.md)."""
    if (parent := traces.traceparent()) is not None:
        await payments.keep_traceparent(tx, payment_request_id, parent)


def id_of_more(payment: PaymentRequest, invoice_id: str) -> str:
    """Return the id of the request that `record_more` makes for an invoice of a request."""
    assert payment.confirmed_at is not None
    return ids.id_of(payment.confirmed_at, f"{payment.id} {invoice_id}".encode())


async def record_more(tx: Tx, payment: PaymentRequest, *, amount: int, invoice_id: str) -> str:
    """Record money that came by invoice for a request that an operator had confirmed by hand. Return its request's id.

    The customer has paid twice, and the money of a request is in one place. So this money gets a separate failed
    request, with the invoice, for an operator to give it back. The caller must hold the payment's lock.
    """
    await payments.give_invoice_up(tx, payment.id)
    more = attrs.evolve(
        payment,
        id=id_of_more(payment, invoice_id),
        amount=amount,
        asked_amount=None,
        is_first_session_discount=False,
        created_at=tx.now,
        confirmed_at=tx.now,
        gateway_invoice_id=invoice_id,
    )
    await record_twin(tx, more, of=payment.id)
    return more.id


async def record_twin(tx: Tx, more: PaymentRequest, *, of: str) -> None:
    """Insert a failed request for money that came after what was paid for another request (`of`)."""
    await transitions.create_failed(tx, more)
    _count(tx, "failed", more)
    await _create_failure(tx, more, Why(cause_of_late_money(more), SubCause.DOUBLE, of))
    await announce.payment_updated(tx, [more])


async def confirm_again(
    tx: Tx, payment: PaymentRequest, *, failure_id: str, targeted_mitra_id: MitraId | None
) -> PaymentRequest:
    """Move a failed request back to `confirmed`, with another targeted mitra or none, and supersede its failure.

    The caller must hold the locks of both. Return the request as it is now. Raises MoneyMoved.
    """
    await failures.supersede(tx, failure_id)
    if not await transitions.confirm_again(tx, payment.id, targeted_mitra_id=targeted_mitra_id):
        raise MoneyMoved(payment.id)
    _count(tx, "retried", payment)
    confirmed = await payments.lock(tx, payment.id)
    assert confirmed is not None
    return confirmed


def _count(tx: Tx, outcome: str, *payments: PaymentRequest) -> None:
    """Count a change of payment requests after the commit."""
    for payment in payments:
        tx.count(metrics.PAYMENTS.labels("extension" if payment.is_extension else "session", outcome))


def _count_and_void(tx: Tx, given_up: list[PaymentRequest]) -> None:
    """Count abandoned requests, and void their invoices, after the commit."""
    _count(tx, "abandoned", *given_up)
    for payment in given_up:
        if payment.gateway_invoice_id is not None:
            tx.emit(InvoiceVoided(gateway_invoice_id=payment.gateway_invoice_id))


async def abandon(tx: Tx, payment: PaymentRequest, *, by: Actor | None) -> bool:
    """Abandon a pending request and void its invoice after the commit. Return False if it was not pending.

    The customer's other devices are notified. `by` is the caller; None if no device has received the request yet.
    """
    if not await transitions.abandon(tx, payment.id):
        return False
    _count_and_void(tx, [payment])
    if by is not None:
        await announce.payment_abandoned(tx, by, [payment])
    return True


async def abandon_pending(tx: Tx, customer_ids: list[str], *, by: Actor) -> None:
    """Abandon the customer's pending request for a session, because one of their devices asks for another one."""
    given_up = await transitions.abandon_pending(tx, customer_ids)
    _count_and_void(tx, given_up)
    await announce.payment_abandoned(tx, by, given_up)


async def abandon_extensions(tx: Tx, session_ids: Sequence[str]) -> None:
    """Abandon the unpaid extension requests of sessions that start closing or are completed."""
    given_up = await transitions.abandon_extensions(tx, session_ids)
    _count_and_void(tx, given_up)
    await announce.payment_updated(tx, given_up)


async def abandon_all(tx: Tx, customer_ids: Sequence[str]) -> None:
    """Abandon all pending requests of an account, which an operator has blocked, and void their invoices.

    The caller must hold the account.
    """
    given_up = await transitions.abandon_all(tx, customer_ids)
    _count_and_void(tx, given_up)
    await announce.payment_updated(tx, given_up)


async def abandon_if_blocked(tx: Tx, account_id: str) -> None:
    """Abandon the pending requests of an account that is blocked: a join brought them, or the block.

    The caller must hold the account.
    """
    if await block_account.of_all(tx, [account_id], now=tx.now):
        await abandon_all(tx, await customers.ids_of(tx, account_id))


async def expire(tx: Tx, payment: PaymentRequest) -> None:
    """Expire a pending request and notify its customer. The caller must hold the payment's lock."""
    if await transitions.expire(tx, payment.id):
        _count(tx, "expired", payment)
        await announce.payment_updated(tx, [payment])


async def expire_due(tx: Tx) -> int:
    """Expire pending requests past their deadline, at most `payments.AT_ONCE`; return how many."""
    expired = await transitions.expire_due(tx)
    _count(tx, "expired", *expired)
    await announce.payment_updated(tx, expired)
    return len(expired)
