"""What differs between a refund of the gateway and ours (docs/operating.md#comparison-with-the-gateway)."""

import datetime as dt
import enum

import attrs

from core.payments.failures.rules import OperatorAction
from core.payments.gateway_calls import CURRENCY, RefundCall, RefundStateThere
from core.payments.reconciliation.invoices import UNDER_WAY
from core.payments.refunds.states import OPEN, RefundStatus


class RefundDifference(enum.StrEnum):
    """How a refund of the gateway and ours differ."""

    REFUND_NOT_RECORDED = "refund_not_recorded"
    REFUND_NOT_PAID = "refund_not_paid"
    REFUND_AMOUNT_DIFFERS = "refund_amount_differs"
    UNKNOWN_REFUND = "unknown_refund"


MEANINGS = {
    RefundDifference.REFUND_NOT_RECORDED: "refunded by the gateway, not recorded here",
    RefundDifference.REFUND_NOT_PAID: "recorded as paid back, not paid by the gateway",
    RefundDifference.REFUND_AMOUNT_DIFFERS: "the refunded amounts differ",
    RefundDifference.UNKNOWN_REFUND: "the gateway does not know the refund",
}


@attrs.frozen(kw_only=True)
class Known:
    """A pairing failure with its refund. `status`, `amount` and `gateway_refund_id` are those of the refund.

    Without a refund, `status` and `amount` are None. The amount is in Rupiah.
    """

    action: OperatorAction | None = attrs.field(converter=attrs.converters.optional(OperatorAction))
    status: RefundStatus | None = attrs.field(converter=attrs.converters.optional(RefundStatus))
    amount: int | None
    gateway_refund_id: str | None


def is_under_way(created: dt.datetime | None, updated: dt.datetime | None, *, until: dt.datetime) -> bool:
    """Return whether a refund changed so late that a database of the moment `until` need not have the change.

    `created` and `updated` are the gateway's, None if it did not send them. All are real time.
    """
    return any(at is not None and at > until - UNDER_WAY for at in (created, updated))


def difference(report: RefundCall, known: Known | None) -> RefundDifference | None:
    """Return how a refund of the gateway differs from ours, None if it fits.

    `known` is None if the service does not know the failure. An open refund fits: the jobs process asks about it.
    """
    if known is None or known.status is None:
        recorded = known is not None and known.action is OperatorAction.REFUNDED
        return None if recorded or report.state is RefundStateThere.FAILED else RefundDifference.REFUND_NOT_RECORDED
    if known.status in OPEN:
        return None
    if known.status is RefundStatus.FAILED or report.refund_id != known.gateway_refund_id:
        return None if report.state is RefundStateThere.FAILED else RefundDifference.REFUND_NOT_RECORDED
    if report.state is not RefundStateThere.SUCCEEDED:
        return RefundDifference.REFUND_NOT_PAID
    fits = report.amount == known.amount and (report.currency or CURRENCY) == CURRENCY
    return None if fits else RefundDifference.REFUND_AMOUNT_DIFFERS
