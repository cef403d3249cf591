"""What the gateway's word does to a locked request, told by a call or asked for (contract 4, the webhook's table)."""

import datetime as dt

from core.payments import rules, store
from core.payments.rules import Call, Case, Issued
from core.payments.store import PaymentRequest
from core.steps import money
from core.storage.database import Tx


def issued(payment: PaymentRequest) -> Issued:
    """Return what was asked for."""
    return Issued(
        status=payment.status,
        amount=payment.amount,
        expires_at=payment.expires_at,
        invoice_id=payment.gateway_invoice_id,
        was_confirmed=payment.confirmed_at is not None,
    )


async def settle(
    tx: Tx, payment: PaymentRequest, account: tuple[str, ...], call: Call, *, received_at: dt.datetime
) -> tuple[Case, str | None]:
    """Judge and act; the caller holds the account. Returns the case, and what an operator should know of it."""
    asked = issued(payment)
    case = rules.judge(call, asked, received_at=received_at)
    if case is Case.EXPIRED:
        await store.expire(tx, payment.id)
    paid = case in (Case.CONFIRMED, Case.LATE, Case.DUPLICATE)
    if paid and await store.invoice_is_anothers(tx, call.invoice_id, but=payment.id):
        return Case.CONFLICT, "this invoice has paid another request"
    if case is Case.DUPLICATE:  # confirmed by hand, its invoice is told now
        await store.keep_invoice(tx, payment.id, call.invoice_id)
    if case in (Case.CONFIRMED, Case.LATE):
        case = await money.take(tx, payment, account, late=case is Case.LATE, invoice_id=call.invoice_id)
        over = rules.overpaid_by(call, asked)
        return case, f"overpaid by {over}" if over else None
    return case, None
