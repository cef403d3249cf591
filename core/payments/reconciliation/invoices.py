"""What differs between an invoice of the gateway and its payment request (docs/operating.md#comparison-with-the-gateway)."""

import datetime as dt
import enum

import attrs

from core.payments.gateway_calls import CURRENCY, PAID_STATUSES, Case, Facts, InvoiceCall, Issued, judge, paid_after
from core.payments.states import PaymentStatus

# A payment may take this long until the service has it: the gateway's call, or the polls after a lost call.
UNDER_WAY = dt.timedelta(minutes=2)
OPEN = "PENDING"


class Difference(enum.StrEnum):
    """How an invoice and its payment request differ."""

    PAID_NOT_CONFIRMED = "paid_not_confirmed"
    PAID_NOT_FITTING = "paid_not_fitting"
    UNKNOWN_REQUEST = "unknown_request"
    CONFIRMED_NOT_PAID = "confirmed_not_paid"
    UNKNOWN_INVOICE = "unknown_invoice"
    AMOUNT_DIFFERS = "amount_differs"
    STILL_PAYABLE = "still_payable"
    NOT_PAYABLE = "not_payable"


MEANINGS = {
    Difference.PAID_NOT_CONFIRMED: "paid at the gateway, not confirmed here",
    Difference.PAID_NOT_FITTING: "paid at the gateway, but not what the request expects",
    Difference.UNKNOWN_REQUEST: "paid or payable at the gateway, the request is unknown here",
    Difference.CONFIRMED_NOT_PAID: "confirmed here, not paid at the gateway",
    Difference.UNKNOWN_INVOICE: "the gateway does not know the invoice",
    Difference.AMOUNT_DIFFERS: "the amounts differ",
    Difference.STILL_PAYABLE: "can be paid at the gateway, must not be",
    Difference.NOT_PAYABLE: "pending here, expired at the gateway",
}
MONEY = frozenset({Difference.PAID_NOT_CONFIRMED, Difference.PAID_NOT_FITTING, Difference.UNKNOWN_REQUEST})


@attrs.frozen(kw_only=True)
class Known:
    """A payment request. `by_hand` says that an operator confirmed it at `confirmed_at`, who had seen the money elsewhere."""

    issued: Issued
    by_hand: bool
    confirmed_at: dt.datetime | None = None


def is_under_way(
    call: InvoiceCall, *, created: dt.datetime | None, updated: dt.datetime | None, until: dt.datetime
) -> bool:
    """Return whether an invoice changed so late that a database of the moment `until` need not have the change.

    `created` and `updated` are the gateway's, None if it did not send them. All are real time.
    """
    limit = until - UNDER_WAY
    if created is not None and created > limit:
        return True
    changed = (call.paid_at or updated) if call.status in PAID_STATUSES else updated
    return call.status != OPEN and changed is not None and changed > limit


def difference(call: InvoiceCall, known: Known | None, *, now: dt.datetime) -> Difference | None:
    """Return how an invoice differs from its payment request, None if it fits. `now` is the service time.

    `known` is None if the service does not know the request.
    """
    if known is None:
        return Difference.UNKNOWN_REQUEST if call.status in (*PAID_STATUSES, OPEN) else None
    if call.status in PAID_STATUSES:
        return _paid(call, known, now=now)
    own = known.issued.invoice_id in (None, call.invoice_id)
    return _unpaid(call, known) if own else _surplus(call)


def _paid(call: InvoiceCall, known: Known, *, now: dt.datetime) -> Difference | None:
    issued = known.issued
    case = judge(call, Facts(issued=issued, received_at=now)).case
    if case is Case.CONFLICT:
        return Difference.PAID_NOT_FITTING
    if case is not Case.DUPLICATE:
        return Difference.PAID_NOT_CONFIRMED
    if known.by_hand and known.confirmed_at is not None and issued.invoice_id and paid_after(call, known.confirmed_at):
        return Difference.PAID_NOT_CONFIRMED  # paid twice; once recorded, the invoice is another request's
    paid = call.paid_amount if call.paid_amount is not None else call.amount
    fits = paid == issued.amount == call.amount and (call.currency or CURRENCY) == CURRENCY
    return None if fits else Difference.AMOUNT_DIFFERS


def _unpaid(call: InvoiceCall, known: Known) -> Difference | None:
    issued = known.issued
    if issued.was_confirmed and not known.by_hand:
        return Difference.CONFIRMED_NOT_PAID
    if call.status != OPEN:
        return Difference.NOT_PAYABLE if issued.status is PaymentStatus.PENDING else None
    if issued.status is not PaymentStatus.PENDING:
        return Difference.STILL_PAYABLE
    return None if call.amount == issued.amount else Difference.AMOUNT_DIFFERS


def _surplus(call: InvoiceCall) -> Difference | None:
    """The request has another invoice, so the payment of this one would be a conflict."""
    return Difference.STILL_PAYABLE if call.status == OPEN else None
