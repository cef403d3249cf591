"""What the gateway reports about a refund, by its webhook or when it is asked, and what that means
(docs/protocol.md#refunds)."""

import enum
from typing import Any

import attrs

from core.base.ids import parse_id
from core.base.plain_json import plain_text, storable
from core.payments.gateway_calls import CURRENCY, Case, whole_idr
from core.payments.refunds.states import RefundStatus

EVENTS = "refund."  # the beginning of the webhook's events about refunds
UNNAMED = "FAILED"  # the code of a failure for which the gateway gives no reason


class Reported(enum.Enum):
    """The state of a refund at the gateway."""

    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


STATES = {"SUCCEEDED": Reported.SUCCEEDED, "FAILED": Reported.FAILED, "CANCELLED": Reported.FAILED}


@attrs.frozen(kw_only=True)
class Report:
    """A refund at the gateway. `failure_id` is our reference, a canonical UUID. The amount is in Rupiah."""

    refund_id: str
    failure_id: str
    state: Reported
    amount: int | None
    currency: str | None
    failure_code: str | None
    body: dict[str, Any] = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class Known:
    """A refund of ours. `is_undecided`: its failure is not superseded, and no operator's action is recorded."""

    status: RefundStatus
    amount: int
    gateway_refund_id: str | None
    is_undecided: bool


def refund_in(body: Any) -> dict[str, Any] | None:
    """Return the refund of a webhook call; None if the call is about something else.

    The gateway nests the refund in `data`, and in some versions that once more.
    """
    event = body.get("event") if isinstance(body, dict) else None
    if not isinstance(event, str) or not event.lower().startswith(EVENTS):
        return None
    data = body.get("data")
    inner = data.get("data") if isinstance(data, dict) else None
    found = inner if isinstance(inner, dict) else data
    return found if isinstance(found, dict) else {}


def is_event(status: str | None) -> bool:
    """Return whether the logged status of a webhook call is that of an event about a refund."""
    return status is not None and status.lower().startswith(EVENTS)


def logged(body: Any) -> dict[str, Any]:
    """Return the fields of a webhook call by the names of an invoice, for its log row; {} if it is not an object."""
    refund = refund_in(body)
    if refund is None:
        return body if isinstance(body, dict) else {}
    return {**refund, "external_id": refund.get("reference_id"), "status": body["event"]}


def read_report(refund: dict[str, Any], *, app_tag: str) -> Report | Case:
    """Return the parsed refund, or the case that decides it without looking it up."""
    reference = refund.get("reference_id")
    failure_id = parse_id(reference) if isinstance(reference, str) else None
    if failure_id is None:  # of another system, or made by hand at the gateway
        return Case.NON_UUID
    metadata = refund.get("metadata")
    app = metadata.get("app") if isinstance(metadata, dict) else None
    if app is not None and app != app_tag:
        return Case.FOREIGN_APP
    refund_id, status = storable(refund.get("id")), storable(refund.get("status"), 50)
    if refund_id is None or status is None:
        return Case.INVALID_PAYLOAD
    return Report(
        refund_id=refund_id,
        failure_id=failure_id,
        state=STATES.get(status.upper(), Reported.PENDING),
        amount=whole_idr(refund.get("amount")),
        currency=storable(refund.get("currency")),
        failure_code=plain_text(refund.get("failure_code"), 100) or None,
        body=refund,
    )


def judge(report: Report, known: Known) -> Case:
    """Return the case of a report about a refund of ours. A conflict changes nothing."""
    if known.gateway_refund_id is not None and report.refund_id != known.gateway_refund_id:
        return Case.CONFLICT
    if report.state is Reported.SUCCEEDED:
        return _judge_success(report, known)
    if report.state is Reported.PENDING:
        return Case.IGNORED_STATUS
    if known.status is RefundStatus.SUCCEEDED:
        return Case.CONFLICT
    return Case.DUPLICATE if known.status is RefundStatus.FAILED else Case.REFUND_FAILED


def _judge_success(report: Report, known: Known) -> Case:
    if report.amount != known.amount or (report.currency or CURRENCY) != CURRENCY:
        return Case.CONFLICT
    if known.status is RefundStatus.SUCCEEDED:
        return Case.DUPLICATE
    return Case.REFUND_SUCCEEDED if known.is_undecided else Case.CONFLICT
