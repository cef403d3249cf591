"""Apply what the gateway reports about an invoice to a locked payment request, by webhook or poll.

core/payments/gateway_calls.py judges the report; the rules are in docs/product.md#how-a-payment-is-confirmed.
"""

import datetime as dt
import json
from collections.abc import Sequence

from core.accounts.customers import store as customers
from core.base import ids
from core.base.plain_json import plain_text
from core.payments import gateway_calls, money, payer_data, store
from core.payments.gateway_calls import Call, Case, Issued
from core.payments.store import PaymentRequest
from core.payments.webhooks import store as webhooks
from core.payments.webhooks.store import MAX_BODY, Received
from core.providers.invoices import Invoice
from core.storage.transaction import Reader, Tx
from core.telemetry import logs

FITS = frozenset({Case.CONFIRMED, Case.NOT_PAIRABLE, Case.LATE, Case.DUPLICATE})
log = logs.get("payments")


def issued(payment: PaymentRequest) -> Issued:
    """Return the fields of a payment request that a call of the gateway is judged against."""
    return Issued(
        status=payment.status,
        amount=payment.amount,
        expires_at=payment.expires_at,
        invoice_id=payment.gateway_invoice_id,
        was_confirmed=payment.confirmed_at is not None,
    )


async def apply(
    tx: Tx, payment: PaymentRequest, account: tuple[str, ...], call: Call, *, received_at: dt.datetime
) -> tuple[Case, str | None]:
    """Judge a call of the gateway and apply its effect.

    The caller must hold the customer's account and the payment's lock. Returns (case, note): the note is text for
    operators, None if there is nothing to add.
    """
    owner = await store.of_invoice(tx, call.invoice_id) if call.status in gateway_calls.PAID_STATUSES else None
    if owner not in (None, payment.id):
        return _of_another(payment, owner, call)
    asked = issued(payment)
    case = gateway_calls.judge(call, asked, received_at=received_at)
    if case is Case.EXPIRED:
        await money.expire(tx, payment)
    if case not in (Case.CONFIRMED, Case.LATE, Case.DUPLICATE):
        return case, None
    if await has_more_money(tx, payment, call):
        return await _keep_more_money(tx, payment, call)
    if case is Case.DUPLICATE:  # confirmed by hand; now the gateway reports the invoice
        await store.keep_invoice(tx, payment.id, call.invoice_id)
    if call.channel is not None:
        await store.keep_channel(tx, payment.id, call.channel)
    if case in (Case.CONFIRMED, Case.LATE):
        case = await money.record_payment(tx, payment, account, late=case is Case.LATE, invoice_id=call.invoice_id)
        over = gateway_calls.overpaid_by(call, asked)
        return case, f"overpaid by {over}" if over else None
    return case, None


def _of_another(payment: PaymentRequest, owner: str | None, call: Call) -> tuple[Case, str | None]:
    """Return the case of an invoice that belongs to another request, which may be the one of `_keep_more_money`."""
    if payment.confirmed_at is not None and owner == money.id_of_more(payment, call.invoice_id):
        return Case.DUPLICATE, None
    return Case.CONFLICT, "this invoice has paid another request"


async def has_more_money(reader: Reader, payment: PaymentRequest, call: Call) -> bool:
    """Return whether a call reports a payment after an operator confirmed the request by hand: it was paid twice."""
    at = payment.confirmed_at
    return (
        at is not None and gateway_calls.paid_after(call, at) and await store.was_confirmed_by_hand(reader, payment.id)
    )


async def _keep_more_money(tx: Tx, payment: PaymentRequest, call: Call) -> tuple[Case, str | None]:
    amount = gateway_calls.paid_by(call)
    if amount == 0:
        return Case.CONFLICT, "paid after an operator had confirmed the request by hand, in another currency"
    more = await money.record_more(tx, payment, amount=amount, invoice_id=call.invoice_id)
    if call.channel is not None:
        await store.keep_channel(tx, more, call.channel)
    return Case.LATE, f"an operator had confirmed the request by hand before; this money is the request {more}"


async def apply_late(tx: Tx, payment: PaymentRequest, call: Call, *, received_at: dt.datetime) -> Case:
    """Judge a call about a confirmed request whose invoice is known. It can only add the channel of the payment.

    The caller needs no lock.
    """
    case = gateway_calls.judge(call, issued(payment), received_at=received_at)
    if case is Case.DUPLICATE and call.channel is not None and gateway_calls.covers(call, payment.amount):
        await store.keep_channel(tx, payment.id, call.channel)  # for one that an operator has confirmed by hand
    return case


async def apply_polled(
    tx: Tx, payment: PaymentRequest, account: tuple[str, ...], invoice: Invoice, *, app_tag: str
) -> Case:
    """Judge an invoice that the gateway returned when polled, and apply its effect.

    The caller must hold the customer's account and the payment's lock. Money that does not fit is logged as a conflict,
    once, and changes nothing.
    """
    call = gateway_calls.read_call(invoice.body, app_tag=app_tag)
    if isinstance(call, Case):
        case, note = call, call.result
    elif call.external_id != payment.id:
        case, note = Case.CONFLICT, "the invoice is for another request"
    else:
        case, note = await apply(tx, payment, account, call, received_at=tx.now)
    if invoice.status in gateway_calls.PAID_STATUSES and case not in FITS:
        return await keep_conflict(
            tx, invoice, payment_request_id=payment.id, note=note or "not what the request expects"
        )
    return case


async def apply_found(tx: Tx, invoice: Invoice, *, app_tag: str) -> Case:
    """Lock the payment request of an invoice that the gateway returned, and apply its effect like `apply_polled`.

    Money for an unknown request is logged as a conflict; another state of such an invoice is not.
    """
    call = gateway_calls.read_call(invoice.body, app_tag=app_tag)
    first = None if isinstance(call, Case) else await store.get(tx, call.external_id)
    if first is None:
        case = call if isinstance(call, Case) else Case.UNKNOWN
        if invoice.status not in gateway_calls.PAID_STATUSES:
            return case
        return await keep_conflict(tx, invoice, payment_request_id=None, note=case.result)
    account = await customers.lock_account(tx, first.customer_id)
    payment = await store.lock(tx, first.id)
    assert payment is not None
    return await apply_polled(tx, payment, account, invoice, app_tag=app_tag)


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


async def keep_conflict(tx: Tx, invoice: Invoice, *, payment_request_id: str | None, note: str) -> Case:
    """Log money that a poll found and that does not fit. The same finding is logged once."""
    log_id = conflict_id(invoice, payment_request_id=payment_request_id, note=note, at=tx.now)
    if ids.without_time(log_id) in await logged_conflicts(tx, [invoice.id]):
        return Case.CONFLICT
    body = invoice.body
    raw_body = await payer_data.stored_body(
        tx, json.dumps(body).encode(), request_id=payment_request_id, invoice_id=invoice.id
    )
    metadata = body.get("metadata")
    row = Received(
        id=log_id,
        received_at=tx.now,
        source_ip="",
        headers={},
        token_valid=True,  # it comes from the gateway's API
        external_id=payment_request_id or plain_text(body.get("external_id")),
        gateway_invoice_id=invoice.id,
        status=plain_text(body.get("status")),
        amount=plain_text(body.get("amount")),
        app_tag=plain_text(metadata.get("app")) if isinstance(metadata, dict) else None,
        raw_body=raw_body[:MAX_BODY],
        truncated=len(raw_body) > MAX_BODY,
        source=webhooks.POLL,
    )
    if await webhooks.record(tx, row):
        await webhooks.stamp(tx, row.id, http_status=Case.CONFLICT.http_status, result=Case.CONFLICT.result, error=note)
        log.error(
            "the gateway has a payment that does not match its request",
            webhook_log_id=row.id,
            payment_request_id=row.external_id,
        )
    return Case.CONFLICT
