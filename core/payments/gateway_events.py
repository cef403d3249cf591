"""Apply what the gateway reports about an invoice to a locked payment request, by webhook or poll.

This module gathers the facts, core/payments/gateway_calls.py judges the report by them, and core/payments/money.py
moves the money. The rules are in docs/product.md#how-a-payment-is-confirmed.
"""

import datetime as dt
import json
from collections.abc import Sequence

import attrs

from core.accounts.customers import store as customers
from core.base import ids
from core.base.plain_json import plain_text
from core.payments import gateway_calls, money, payer_data, short, store
from core.payments.gateway_calls import (
    CallCase,
    Effect,
    Facts,
    InvoiceCall,
    InvoiceOwner,
    Issued,
    Judgement,
    UnreadableCall,
)
from core.payments.states import PaymentStatus
from core.payments.store import PaymentRequest
from core.payments.webhooks import store as webhooks
from core.providers.gateway import Invoice
from core.storage.transaction import Reader, Tx
from core.telemetry import logs

OF_SHORT = frozenset({Effect.GROW, Effect.COMPLETE, Effect.FAIL_WHOLE})
FITS = frozenset({CallCase.CONFIRMED, CallCase.NOT_PAIRABLE, CallCase.LATE, CallCase.DUPLICATE})
log = logs.get("payments")


def issued(payment: PaymentRequest) -> Issued:
    """Return the fields of a payment request that a call of the gateway is judged against."""
    return Issued(
        status=payment.status,
        amount=payment.amount,
        expires_at=payment.expires_at,
        invoice_id=payment.gateway_invoice_id,
        was_confirmed=payment.confirmed_at is not None,
        asked_amount=payment.asked_amount,
    )


async def apply_call(tx: Tx, call: InvoiceCall, *, received_at: dt.datetime) -> Judgement:
    """Judge a call of the webhook and apply its effect.

    A call about a confirmed request whose invoice is known takes no lock, unless it reports other money or less was
    paid: it can only add the channel of the payment.
    """
    payment = await store.get(tx, call.external_id)
    if payment is None:
        return Judgement(case=CallCase.UNKNOWN)
    is_known = payment.confirmed_at is not None and payment.gateway_invoice_id is not None
    if is_known and payment.asked_amount is None:
        by_hand_at = await _by_hand_at(tx, payment, call)
        facts = Facts(issued=issued(payment), received_at=received_at, by_hand_at=by_hand_at)
        judgement = gateway_calls.judge(call, facts)
        if judgement.effect is not Effect.RECORD_MORE:
            return await _carry_out(tx, payment, (), call, judgement)
    account = await customers.lock_account(tx, payment.customer_id)
    locked = await store.lock(tx, payment.id)
    assert locked is not None
    return await _apply(tx, locked, account, call, received_at=received_at)


async def _apply(
    tx: Tx, payment: PaymentRequest, account: tuple[str, ...], call: InvoiceCall, *, received_at: dt.datetime
) -> Judgement:
    """Judge a call and apply its effect. The caller must hold the customer's account and the payment's lock."""
    facts = await _facts(tx, payment, account, call, received_at=received_at)
    return await _carry_out(tx, payment, account, call, gateway_calls.judge(call, facts))


async def _facts(
    tx: Tx, payment: PaymentRequest, account: tuple[str, ...], call: InvoiceCall, *, received_at: dt.datetime
) -> Facts:
    """Return what a call about a locked request is judged by. Only what its status makes necessary is read."""
    if not call.is_paid:
        return Facts(issued=issued(payment), received_at=received_at)
    is_short = payment.asked_amount is not None
    undecided = await short.lock_short_failure(tx, payment) if is_short else None
    may_confirm = undecided is not None or payment.status in (PaymentStatus.PENDING, PaymentStatus.EXPIRED)
    is_given_up = undecided is not None and short.was_given_up(undecided)
    return Facts(
        issued=issued(payment),
        received_at=received_at,
        owner=await _owner(tx, payment, call),
        by_hand_at=await _by_hand_at(tx, payment, call),
        has_obstacle=is_given_up or (may_confirm and await money.obstacle(tx, payment, account) is not None),
        recorded=await short.recorded(tx, payment, call.invoice_id) if is_short else None,
        may_grow=undecided is not None,
    )


async def _owner(reader: Reader, payment: PaymentRequest, call: InvoiceCall) -> InvoiceOwner:
    owner = await store.of_invoice(reader, call.invoice_id)
    if owner in (None, payment.id):
        return InvoiceOwner.THIS_OR_NONE
    is_more = payment.confirmed_at is not None and owner == money.id_of_more(payment, call.invoice_id)
    return InvoiceOwner.MORE_MONEY if is_more else InvoiceOwner.ANOTHER


async def _by_hand_at(reader: Reader, payment: PaymentRequest, call: InvoiceCall) -> dt.datetime | None:
    """Return when an operator confirmed a request by hand, if the call reports a payment after that; else None."""
    at = payment.confirmed_at
    if at is None or not gateway_calls.paid_after(call, at):
        return None
    return at if await store.was_confirmed_by_hand(reader, payment.id) else None


async def _carry_out(
    tx: Tx, payment: PaymentRequest, account: tuple[str, ...], call: InvoiceCall, judgement: Judgement
) -> Judgement:
    """Apply the effect of a call."""
    if judgement.effect is Effect.EXPIRE:
        await money.expire(tx, payment)
    elif judgement.effect is Effect.RECORD_MORE:
        return await _record_more(tx, payment, call, judgement)
    elif judgement.effect in OF_SHORT:
        await _record_rest(tx, payment, account, call, judgement)
    elif judgement.effect is not Effect.NONE:
        await _record(tx, payment, account, call, judgement)
    return judgement


async def _record_rest(
    tx: Tx, payment: PaymentRequest, account: tuple[str, ...], call: InvoiceCall, judgement: Judgement
) -> None:
    """Record more money of a short payment on which no operator has acted."""
    if judgement.effect is Effect.GROW:
        await short.grow(tx, payment, amount=gateway_calls.paid_by(call))
    elif judgement.effect is Effect.COMPLETE:
        await short.complete(tx, payment)
    else:
        await short.fail_whole(tx, payment, account, is_late=judgement.case is CallCase.LATE)


async def _record(
    tx: Tx, payment: PaymentRequest, account: tuple[str, ...], call: InvoiceCall, judgement: Judgement
) -> None:
    """Record the payment that a call reports as that of its request."""
    effect = judgement.effect
    if call.channel is not None:
        await store.keep_channel(tx, payment.id, call.channel)
    if effect is Effect.CONFIRM:
        await money.confirm(tx, payment, invoice_id=call.invoice_id)
    elif effect is Effect.FAIL:
        is_late = judgement.case is CallCase.LATE
        await money.fail_paid(tx, payment, account, is_late=is_late, invoice_id=call.invoice_id)
    elif effect is Effect.FAIL_SHORT:
        await money.fail_short(tx, payment, amount=gateway_calls.paid_by(call), invoice_id=call.invoice_id)
    elif payment.gateway_invoice_id is None:  # confirmed by hand; now the gateway reports the invoice
        await store.keep_invoice(tx, payment.id, call.invoice_id)


async def _record_more(tx: Tx, payment: PaymentRequest, call: InvoiceCall, judgement: Judgement) -> Judgement:
    """Record the payment that a call reports as another payment."""
    amount = gateway_calls.paid_by(call)
    if payment.asked_amount is not None:
        rest = await short.record_rest(tx, payment, paid=amount, invoice_id=call.invoice_id)
        return attrs.evolve(judgement, note=f"{judgement.note}; this money is the request {rest}")
    more = await money.record_more(tx, payment, amount=amount, invoice_id=call.invoice_id)
    if call.channel is not None:
        await store.keep_channel(tx, more, call.channel)
    note = f"an operator had confirmed the request by hand before; this money is the request {more}"
    return attrs.evolve(judgement, note=note)


async def apply_polled(
    tx: Tx, payment: PaymentRequest, account: tuple[str, ...], invoice: Invoice, *, app_tag: str
) -> CallCase:
    """Judge an invoice that the gateway returned when polled, and apply its effect.

    The caller must hold the customer's account and the payment's lock. Money that does not fit is logged as a conflict,
    once, and changes nothing.
    """
    call = gateway_calls.read_invoice_call(invoice.body, app_tag=app_tag)
    return await _apply_read(tx, payment, account, invoice, call)


async def _apply_read(
    tx: Tx, payment: PaymentRequest, account: tuple[str, ...], invoice: Invoice, call: InvoiceCall | UnreadableCall
) -> CallCase:
    if isinstance(call, UnreadableCall):
        judgement = Judgement(case=call.case, note=call.case.result)
    elif call.external_id != payment.id:
        judgement = Judgement(case=CallCase.CONFLICT, note="the invoice is for another request")
    else:
        judgement = await _apply(tx, payment, account, call, received_at=tx.now)
    if invoice.status in gateway_calls.PAID_STATUSES and judgement.case not in FITS:
        note = judgement.note or "not what the request expects"
        return await keep_conflict(tx, invoice, payment_request_id=payment.id, note=note)
    return judgement.case


async def apply_found(tx: Tx, invoice: Invoice, call: InvoiceCall | UnreadableCall) -> CallCase:
    """Lock the payment request of an invoice that the gateway returned, and apply its effect like `apply_polled`.

    `call` is the invoice as it was read. Money for an unknown request is logged as a conflict; another state of such an
    invoice is not.
    """
    first = None if isinstance(call, UnreadableCall) else await store.get(tx, call.external_id)
    if first is None:
        case = call.case if isinstance(call, UnreadableCall) else CallCase.UNKNOWN
        if invoice.status not in gateway_calls.PAID_STATUSES:
            return case
        return await keep_conflict(tx, invoice, payment_request_id=None, note=case.result)
    account = await customers.lock_account(tx, first.customer_id)
    payment = await store.lock(tx, first.id)
    assert payment is not None
    return await _apply_read(tx, payment, account, invoice, call)


def conflict_id(invoice: Invoice, *, payment_request_id: str | None, note: str, at: dt.datetime) -> str:
    """Return the id of the log row of a conflict that is found at a time.

    All but its time is the same for the same finding. Its time is the beginning of the day (UTC): lists look for a row
    in the month of its time, and for rows about a request from a day before the request on.
    """
    body = invoice.body
    money_found = (body.get("amount"), body.get("paid_amount"), body.get("currency"))
    found = json.dumps([invoice.id, payment_request_id, note, *map(plain_text, money_found)]).encode()
    day = at.astimezone(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return ids.id_of(day, found)


async def logged_conflicts(reader: Reader, invoice_ids: Sequence[str]) -> set[str]:
    """Return which conflicts of these invoices have a log row: their ids without the time."""
    return {ids.without_time(one) for one in await webhooks.polled(reader, invoice_ids=invoice_ids)}


async def keep_conflict(tx: Tx, invoice: Invoice, *, payment_request_id: str | None, note: str) -> CallCase:
    """Log money that a poll found and that does not fit. The same finding is logged once."""
    log_id = conflict_id(invoice, payment_request_id=payment_request_id, note=note, at=tx.now)
    if ids.without_time(log_id) in await logged_conflicts(tx, [invoice.id]):
        return CallCase.CONFLICT
    named = gateway_calls.named_in(invoice.body)
    row = await payer_data.row_of_answer(
        tx,
        invoice.body,
        log_id=log_id,
        external_id=payment_request_id or named.external_id,
        invoice_id=invoice.id,
        app_tag=named.app_tag,
    )
    await payer_data.log_conflict(tx, row, note)
    return CallCase.CONFLICT
