"""What a call of the gateway means for a payment request, and what the webhook answers to each call (`Case`).

A call is an invoice's state that the gateway sends to the webhook, or returns when it is polled. The rules are in
docs/product.md#how-a-payment-is-confirmed.
"""

import datetime as dt
import enum
import hmac
from typing import Any

import attrs

from core.base.field_types import MAX_INT
from core.base.ids import parse_id
from core.base.plain_json import storable
from core.payments.channels import channel_of
from core.payments.states import PaymentStatus

LATE_TOLERANCE = dt.timedelta(seconds=60)  # after `expires_at`; money paid by then counts as in time
CURRENCY = "IDR"
PAID_STATUSES = frozenset({"PAID", "SETTLED"})


class ProcessingResult(enum.StrEnum):
    """What a webhook call led to, as in `webhook_logs.processing_result`."""

    UNAUTHORIZED = "unauthorized"
    FLOOD = "flood"
    INVALID_PAYLOAD = "invalid_payload"
    IGNORED_NON_UUID_EXTERNAL_ID = "ignored_non_uuid_external_id"
    IGNORED_FOREIGN_APP = "ignored_foreign_app"
    UNKNOWN_EXTERNAL_ID = "unknown_external_id"
    CONFIRMED = "confirmed"
    DUPLICATE = "duplicate"
    LATE_PAYMENT_RECORDED = "late_payment_recorded"
    PAID_NOT_PAIRABLE = "paid_not_pairable"
    CONFLICT = "conflict"
    EXPIRED = "expired"
    REFUND_SUCCEEDED = "refund_succeeded"
    REFUND_FAILED = "refund_failed"
    IGNORED_STATUS = "ignored_status"
    ERROR = "error"


class Case(enum.Enum):
    """How a webhook call is classified: (`processing_result` of its log row, HTTP status of the answer)."""

    UNAUTHORIZED = (ProcessingResult.UNAUTHORIZED, 401)
    FLOOD = (ProcessingResult.FLOOD, 401)  # no valid token, and over the limit of such calls: counted, not stored
    INVALID_PAYLOAD = (ProcessingResult.INVALID_PAYLOAD, 400)
    TOO_LARGE = (ProcessingResult.INVALID_PAYLOAD, 413)
    NON_UUID = (ProcessingResult.IGNORED_NON_UUID_EXTERNAL_ID, 200)
    FOREIGN_APP = (ProcessingResult.IGNORED_FOREIGN_APP, 200)
    UNKNOWN = (ProcessingResult.UNKNOWN_EXTERNAL_ID, 404)
    CONFIRMED = (ProcessingResult.CONFIRMED, 200)
    DUPLICATE = (ProcessingResult.DUPLICATE, 200)
    LATE = (ProcessingResult.LATE_PAYMENT_RECORDED, 200)
    NOT_PAIRABLE = (ProcessingResult.PAID_NOT_PAIRABLE, 200)
    CONFLICT = (ProcessingResult.CONFLICT, 409)
    EXPIRED = (ProcessingResult.EXPIRED, 200)
    REFUND_SUCCEEDED = (ProcessingResult.REFUND_SUCCEEDED, 200)
    REFUND_FAILED = (ProcessingResult.REFUND_FAILED, 200)
    IGNORED_STATUS = (ProcessingResult.IGNORED_STATUS, 200)
    ERROR = (ProcessingResult.ERROR, 500)

    @property
    def result(self) -> ProcessingResult:
        """The `processing_result` of the call's log row."""
        return self.value[0]

    @property
    def http_status(self) -> int:
        """The HTTP status that the gateway gets."""
        return self.value[1]


@attrs.frozen(kw_only=True)
class Call:
    """The fields of a webhook call that was read successfully. Amounts are in Rupiah."""

    invoice_id: str
    external_id: str  # canonical UUID
    status: str
    amount: int | None
    paid_amount: int | None
    currency: str | None
    paid_at: dt.datetime | None
    app_tag: str | None
    channel: str | None = None


@attrs.frozen(kw_only=True)
class Issued:
    """What a payment request asked for. `invoice_id` is set once the gateway has made the invoice."""

    status: PaymentStatus
    amount: int
    expires_at: dt.datetime
    invoice_id: str | None
    was_confirmed: bool


def whole_idr(value: Any) -> int | None:
    """Return a JSON number as whole Rupiah (12000.0 is 12000); None for anything else and from 2^31 on."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Check the bound first: Python's JSON reader accepts NaN and Infinity, and int() raises for them.
    return int(value) if abs(value) <= MAX_INT and value == int(value) else None


def time_of(value: Any) -> dt.datetime | None:
    """Return a time of the gateway; None for anything but ISO 8601 with a zone."""
    try:
        at = dt.datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return at if at is not None and at.tzinfo is not None else None


def read_call(body: Any, *, app_tag: str) -> Call | Case:
    """Return the parsed call, or the case that decides it without looking up a request."""
    if not isinstance(body, dict):
        return Case.INVALID_PAYLOAD
    external = body.get("external_id")
    if isinstance(external, bool) or not isinstance(external, str | int | float):
        return Case.INVALID_PAYLOAD
    # First check whether the call is for us: calls for other systems behind the same gateway need not have our form.
    # Those systems use numbers as ids, or leave the id empty.
    external_id = parse_id(external)
    if external_id is None:
        return Case.NON_UUID
    metadata = body.get("metadata")
    app = metadata.get("app") if isinstance(metadata, dict) else None
    if app is not None and app != app_tag:
        return Case.FOREIGN_APP
    invoice_id, status, amount = (
        storable(body.get("id")),
        storable(body.get("status"), 50),
        whole_idr(body.get("amount")),
    )
    if invoice_id is None or status is None or amount is None:
        return Case.INVALID_PAYLOAD
    call = Call(
        invoice_id=invoice_id,
        external_id=external_id,
        status=status.upper(),
        amount=amount,
        paid_amount=whole_idr(body.get("paid_amount")),
        currency=storable(body.get("currency")),
        paid_at=time_of(body.get("paid_at")),
        app_tag=app,
        channel=channel_of(body),
    )
    if body.get("currency") is not None and call.currency is None:
        return Case.INVALID_PAYLOAD
    odd_paid_amount = body.get("paid_amount") is not None and call.paid_amount is None
    if call.status in PAID_STATUSES and odd_paid_amount:
        return Case.INVALID_PAYLOAD
    return call


def covers(call: Call, amount: int) -> bool:
    """Return whether the call reports at least `amount` Rupiah, both invoiced and paid, in our currency."""
    paid = call.paid_amount if call.paid_amount is not None else call.amount
    if paid is None or paid < amount or (call.currency or CURRENCY) != CURRENCY:
        return False
    return call.amount is None or call.amount >= amount


def judge(call: Call, issued: Issued, *, received_at: dt.datetime) -> Case:
    """Return the case of a parsed call about a known request.

    The caller may turn CONFIRMED into NOT_PAIRABLE, if the customer has another session by now.
    """
    other_invoice = issued.invoice_id is not None and call.invoice_id != issued.invoice_id
    if call.status == "EXPIRED":  # if it is a surplus invoice's, the invoice that the customer has is still valid
        return Case.EXPIRED if issued.status is PaymentStatus.PENDING and not other_invoice else Case.IGNORED_STATUS
    if call.status not in PAID_STATUSES:
        return Case.IGNORED_STATUS
    return Case.CONFLICT if other_invoice else _judge_payment(call, issued, received_at=received_at)


def _judge_payment(call: Call, issued: Issued, *, received_at: dt.datetime) -> Case:
    """Return the case of a call that reports the payment of the request's invoice."""
    if issued.was_confirmed and issued.invoice_id is not None:
        return Case.DUPLICATE
    if not covers(call, issued.amount):
        return Case.CONFLICT
    if issued.was_confirmed:  # by hand: the operator had seen this payment
        return Case.DUPLICATE
    if issued.status is PaymentStatus.PENDING:
        return Case.CONFIRMED
    in_time = (call.paid_at or received_at) <= issued.expires_at + LATE_TOLERANCE
    if issued.status is PaymentStatus.EXPIRED and in_time:
        return Case.CONFIRMED
    return Case.LATE


def paid_after(call: Call, confirmed_at: dt.datetime) -> bool:
    """Return whether a call reports money that was paid well after a request was confirmed.

    If an operator confirmed it by hand, this is other money than they had seen.
    """
    return call.status in PAID_STATUSES and call.paid_at is not None and call.paid_at > confirmed_at + LATE_TOLERANCE


def paid_by(call: Call) -> int:
    """Return how many Rupiah a call reports as paid; 0 if it is another currency."""
    paid = call.paid_amount if call.paid_amount is not None else call.amount
    return (paid or 0) if (call.currency or CURRENCY) == CURRENCY else 0


def overpaid_by(call: Call, issued: Issued) -> int:
    """Return how many Rupiah more than the request's amount were paid; 0 if none."""
    paid = call.paid_amount if call.paid_amount is not None else call.amount
    return max(0, (paid or 0) - issued.amount)


def is_callback_token(given: str | None, expected: tuple[str, ...]) -> bool:
    """Return whether `given` is one of the callback tokens; False if none is configured.

    Compares bytes in constant time, and always with every token.
    """
    if given is None:
        return False
    sent = given.encode("utf-8", "surrogateescape")
    valid = False
    for token in expected:  # no early exit: the time taken must not reveal which token matches
        valid |= hmac.compare_digest(sent, token.encode())
    return valid
