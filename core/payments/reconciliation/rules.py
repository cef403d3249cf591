"""How invoices and refunds of the gateway may differ from ours (docs/operating.md#comparison-with-the-gateway)."""

import datetime as dt
import enum

import attrs

from core.payments.failures.rules import OperatorAction
from core.payments.gateway_calls import (
    CURRENCY,
    PAID_STATUSES,
    CallCase,
    Facts,
    InvoiceCall,
    Issued,
    RefundCall,
    RefundStateThere,
    judge,
    paid_after,
)
from core.payments.refunds.states import OPEN as OPEN_REFUNDS
from core.payments.refunds.states import RefundStatus
from core.payments.states import PaymentStatus

# A payment may take this long until the service has it: the gateway's call, or the polls after a lost call.
UNDER_WAY = dt.timedelta(minutes=2)
OPEN = "PENDING"


class InvoiceDifference(enum.StrEnum):
    """How an invoice and its payment request differ."""

    PAID_NOT_CONFIRMED = "paid_not_confirmed"
    PAID_NOT_FITTING = "paid_not_fitting"
    UNKNOWN_REQUEST = "unknown_request"
    CONFIRMED_NOT_PAID = "confirmed_not_paid"
    UNKNOWN_INVOICE = "unknown_invoice"
    AMOUNT_DIFFERS = "amount_differs"
    STILL_PAYABLE = "still_payable"
    NOT_PAYABLE = "not_payable"


class RefundDifference(enum.StrEnum):
    """How a refund of the gateway and ours differ."""

    REFUND_NOT_RECORDED = "refund_not_recorded"
    REFUND_NOT_PAID = "refund_not_paid"
    REFUND_AMOUNT_DIFFERS = "refund_amount_differs"
    UNKNOWN_REFUND = "unknown_refund"


MEANINGS: dict[InvoiceDifference | RefundDifference, str] = {
    InvoiceDifference.PAID_NOT_CONFIRMED: "paid at the gateway, not confirmed here",
    InvoiceDifference.PAID_NOT_FITTING: "paid at the gateway, but not what the request expects",
    InvoiceDifference.UNKNOWN_REQUEST: "paid or payable at the gateway, the request is unknown here",
    InvoiceDifference.CONFIRMED_NOT_PAID: "confirmed here, not paid at the gateway",
    InvoiceDifference.UNKNOWN_INVOICE: "the gateway does not know the invoice",
    InvoiceDifference.AMOUNT_DIFFERS: "the amounts differ",
    InvoiceDifference.STILL_PAYABLE: "can be paid at the gateway, must not be",
    InvoiceDifference.NOT_PAYABLE: "pending here, expired at the gateway",
    RefundDifference.REFUND_NOT_RECORDED: "refunded by the gateway, not recorded here",
    RefundDifference.REFUND_NOT_PAID: "recorded as paid back, not paid by the gateway",
    RefundDifference.REFUND_AMOUNT_DIFFERS: "the refunded amounts differ",
    RefundDifference.UNKNOWN_REFUND: "the gateway does not know the refund",
}
MONEY = frozenset(
    {InvoiceDifference.PAID_NOT_CONFIRMED, InvoiceDifference.PAID_NOT_FITTING, InvoiceDifference.UNKNOWN_REQUEST}
)


@attrs.frozen(kw_only=True)
class KnownRequest:
    """A payment request. `by_hand`: an operator confirmed it at `confirmed_at`, who had seen the money elsewhere.

    Or its money came by the invoice of another request. `may_grow` as in `Facts`.
    """

    issued: Issued
    by_hand: bool
    confirmed_at: dt.datetime | None = None
    may_grow: bool = False


def is_invoice_under_way(
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


def invoice_difference(call: InvoiceCall, known: KnownRequest | None, *, now: dt.datetime) -> InvoiceDifference | None:
    """Return how an invoice differs from its payment request, None if it fits. `now` is the service time.

    `known` is None if the service does not know the request.
    """
    if known is None:
        return InvoiceDifference.UNKNOWN_REQUEST if call.status in (*PAID_STATUSES, OPEN) else None
    if call.status in PAID_STATUSES:
        return _paid(call, known, now=now)
    own = known.issued.invoice_id in (None, call.invoice_id)
    return _unpaid(call, known) if own else _surplus(call)


def _paid(call: InvoiceCall, known: KnownRequest, *, now: dt.datetime) -> InvoiceDifference | None:
    issued = known.issued
    recorded = None if issued.asked_amount is None else issued.amount
    case = judge(call, Facts(issued=issued, received_at=now, recorded=recorded, may_grow=known.may_grow)).case
    if case is CallCase.CONFLICT:
        return InvoiceDifference.PAID_NOT_FITTING
    if case is not CallCase.DUPLICATE:
        return InvoiceDifference.PAID_NOT_CONFIRMED
    if known.by_hand and known.confirmed_at is not None and issued.invoice_id and paid_after(call, known.confirmed_at):
        return InvoiceDifference.PAID_NOT_CONFIRMED  # paid twice; once recorded, the invoice is another request's
    paid = call.paid_amount if call.paid_amount is not None else call.amount
    asked = issued.asked_amount or issued.amount
    fits = (paid, call.amount) == (issued.amount, asked) and (call.currency or CURRENCY) == CURRENCY
    return None if fits else InvoiceDifference.AMOUNT_DIFFERS


def _unpaid(call: InvoiceCall, known: KnownRequest) -> InvoiceDifference | None:
    issued = known.issued
    if issued.was_confirmed and not known.by_hand:
        return InvoiceDifference.CONFIRMED_NOT_PAID
    if call.status != OPEN:
        return InvoiceDifference.NOT_PAYABLE if issued.status is PaymentStatus.PENDING else None
    if issued.status is not PaymentStatus.PENDING:
        return InvoiceDifference.STILL_PAYABLE
    return None if call.amount == issued.amount else InvoiceDifference.AMOUNT_DIFFERS


def _surplus(call: InvoiceCall) -> InvoiceDifference | None:
    """The request has another invoice, so the payment of this one would be a conflict."""
    return InvoiceDifference.STILL_PAYABLE if call.status == OPEN else None


@attrs.frozen(kw_only=True)
class KnownRefund:
    """A refund of ours. `action` is what an operator has done about its pairing failure; None for earned money.

    For a failure without a refund, `status` and `amount` are None. The amount is in Rupiah.
    """

    action: OperatorAction | None = attrs.field(converter=attrs.converters.optional(OperatorAction))
    status: RefundStatus | None = attrs.field(converter=attrs.converters.optional(RefundStatus))
    amount: int | None
    gateway_refund_id: str | None


def is_refund_under_way(created: dt.datetime | None, updated: dt.datetime | None, *, until: dt.datetime) -> bool:
    """Return whether a refund changed so late that a database of the moment `until` need not have the change.

    `created` and `updated` are the gateway's, None if it did not send them. All are real time.
    """
    return any(at is not None and at > until - UNDER_WAY for at in (created, updated))


def refund_difference(report: RefundCall, known: KnownRefund | None) -> RefundDifference | None:
    """Return how a refund of the gateway differs from ours, None if it fits.

    `known` is None if the service does not know the reference. An open refund fits: the jobs process asks about it.
    """
    if known is None or known.status is None:
        recorded = known is not None and known.action is OperatorAction.REFUNDED
        return None if recorded or report.state is RefundStateThere.FAILED else RefundDifference.REFUND_NOT_RECORDED
    if known.status in OPEN_REFUNDS:
        return None
    if known.status is RefundStatus.FAILED or report.refund_id != known.gateway_refund_id:
        return None if report.state is RefundStateThere.FAILED else RefundDifference.REFUND_NOT_RECORDED
    if report.state is not RefundStateThere.SUCCEEDED:
        return RefundDifference.REFUND_NOT_PAID
    fits = report.amount == known.amount and (report.currency or CURRENCY) == CURRENCY
    return None if fits else RefundDifference.REFUND_AMOUNT_DIFFERS
