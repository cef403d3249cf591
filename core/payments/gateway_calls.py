"""What a call of the gateway says, and what it means for a payment request.

`CallCase` holds what the webhook answers to each call. A call is the state of an invoice or of a refund that the
gateway sends to the webhook, or returns when it is asked. It is read once, into `InvoiceCall | RefundCall |
UnreadableCall`. Then the facts about its request are gathered (core/payments/gateway_events.py), and `judge` says once
what follows. What a refund's call means is in core/payments/refunds/rules.py. The rules are in
docs/product.md#how-a-payment-is-confirmed.
"""

import datetime as dt
import enum
import hmac
import json
from typing import Any

import attrs

from core.base.field_types import MAX_INT
from core.base.ids import parse_id
from core.base.languages import Text
from core.base.plain_json import plain_text, storable
from core.payments.channels import channel_of
from core.payments.states import PaymentStatus

LATE_TOLERANCE = dt.timedelta(seconds=60)  # after `expires_at`; money paid by then counts as in time
CURRENCY = "IDR"
PAID_STATUSES = frozenset({"PAID", "SETTLED"})
REFUND_EVENTS = "refund."  # the beginning of the webhook's events about refunds


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


RESULT_LABELS: dict[ProcessingResult, Text] = {
    ProcessingResult.CONFIRMED: Text(en="confirmed", id="dikonfirmasi"),
    ProcessingResult.DUPLICATE: Text(en="duplicate", id="ganda"),
    ProcessingResult.LATE_PAYMENT_RECORDED: Text(en="late payment recorded", id="pembayaran terlambat dicatat"),
    ProcessingResult.PAID_NOT_PAIRABLE: Text(en="paid, can't be paired", id="dibayar, tidak dapat dipasangkan"),
    ProcessingResult.EXPIRED: Text(en="expired", id="kedaluwarsa"),
    ProcessingResult.REFUND_SUCCEEDED: Text(en="refund succeeded", id="pengembalian berhasil"),
    ProcessingResult.REFUND_FAILED: Text(en="refund failed", id="pengembalian gagal"),
    ProcessingResult.IGNORED_STATUS: Text(en="status ignored", id="status diabaikan"),
    ProcessingResult.IGNORED_NON_UUID_EXTERNAL_ID: Text(en="not ours (id)", id="bukan milik kita (id)"),
    ProcessingResult.IGNORED_FOREIGN_APP: Text(en="another app's", id="milik aplikasi lain"),
    ProcessingResult.UNKNOWN_EXTERNAL_ID: Text(en="unknown payment", id="pembayaran tidak dikenal"),
    ProcessingResult.CONFLICT: Text(en="conflict", id="bentrok"),
    ProcessingResult.UNAUTHORIZED: Text(en="invalid token", id="tanpa token yang sah"),
    ProcessingResult.FLOOD: Text(en="many with an invalid token", id="banyak tanpa token yang sah"),
    ProcessingResult.INVALID_PAYLOAD: Text(en="unreadable", id="tidak terbaca"),
    ProcessingResult.ERROR: Text(en="error", id="galat"),
}


class CallCase(enum.Enum):
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
class InvoiceCall:
    """An invoice at the gateway. `external_id` is our payment request, a canonical UUID. Amounts are in Rupiah."""

    invoice_id: str
    external_id: str
    status: str
    amount: int | None
    paid_amount: int | None
    currency: str | None
    paid_at: dt.datetime | None
    app_tag: str | None
    channel: str | None = None

    @property
    def is_paid(self) -> bool:
        """Return whether the invoice is paid."""
        return self.status in PAID_STATUSES


class RefundStateThere(enum.Enum):
    """The state of a refund at the gateway."""

    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


_REFUND_STATES = {
    "SUCCEEDED": RefundStateThere.SUCCEEDED,
    "FAILED": RefundStateThere.FAILED,
    "CANCELLED": RefundStateThere.FAILED,
}


@attrs.frozen(kw_only=True)
class RefundCall:
    """A refund at the gateway. `reference` is ours, a canonical UUID. The amount is in Rupiah."""

    refund_id: str
    reference: str
    state: RefundStateThere
    amount: int | None
    currency: str | None
    failure_code: str | None
    body: dict[str, Any] = attrs.field(repr=False)


@attrs.frozen
class UnreadableCall:
    """A call that is not about anything of ours, or can't be read. Its case is known without looking anything up."""

    case: CallCase


@attrs.frozen(kw_only=True)
class NamedFields:
    """What a call names, by the names of an invoice, unchecked: for its log row."""

    external_id: str | None
    gateway_invoice_id: str | None
    status: str | None
    amount: str | None
    app_tag: str | None


@attrs.frozen(kw_only=True)
class ParsedCall:
    """A call of the webhook, read once."""

    named: NamedFields
    content: InvoiceCall | RefundCall | UnreadableCall


@attrs.frozen(kw_only=True)
class Issued:
    """What a payment request asked for. `invoice_id` is set once the gateway has made the invoice."""

    status: PaymentStatus
    amount: int
    expires_at: dt.datetime
    invoice_id: str | None
    was_confirmed: bool
    asked_amount: int | None = None  # of its invoice, if less was paid


class InvoiceOwner(enum.Enum):
    """Which request the paid invoice of a call already belongs to."""

    THIS_OR_NONE = enum.auto()
    MORE_MONEY = enum.auto()  # the separate request that `Effect.RECORD_MORE` has made for this invoice
    ANOTHER = enum.auto()


@attrs.frozen(kw_only=True)
class Facts:
    """What a call about an invoice is judged by.

    `by_hand_at`: when an operator confirmed the request by hand; None if none did. `has_obstacle`: money in time could
    not lead to a chat, for example because the customer has another session by now.

    `recorded` is what the books have of a short payment, in Rupiah; None if it was not short. `may_grow`: it is a failed
    pairing on which no operator has acted, so more money of its invoice belongs to it.
    """

    issued: Issued
    received_at: dt.datetime
    owner: InvoiceOwner = InvoiceOwner.THIS_OR_NONE
    by_hand_at: dt.datetime | None = None
    has_obstacle: bool = False
    recorded: int | None = None
    may_grow: bool = False


class Effect(enum.Enum):
    """What a call changes."""

    NONE = enum.auto()
    EXPIRE = enum.auto()
    CONFIRM = enum.auto()
    FAIL = enum.auto()  # the money is recorded as that of a failed pairing
    FAIL_SHORT = enum.auto()  # the same, for less money than the invoice asked for
    RECORD_MORE = enum.auto()  # the money is another payment, and gets a separate failed request
    GROW = enum.auto()  # there is more of a short payment, but still less than the invoice asked for
    COMPLETE = enum.auto()  # the rest of a short payment is there, and its search or extension begins
    FAIL_WHOLE = enum.auto()  # the rest of a short payment is there, but can't lead to a chat
    KEEP = enum.auto()  # of a payment that is recorded: its invoice and channel, if they are not known


@attrs.frozen(kw_only=True)
class Judgement:
    """What follows from a call. `note` is text for operators."""

    case: CallCase
    effect: Effect = Effect.NONE
    note: str | None = None


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


def parse(raw: bytes, *, app_tag: str) -> ParsedCall:
    """Read the body of a webhook call. `app_tag` marks what is ours; other systems may use the same gateway."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    fields = body if isinstance(body, dict) else {}
    refund = refund_in(fields)
    if refund is None:
        return ParsedCall(named=named_in(fields), content=read_invoice_call(body, app_tag=app_tag))
    named = named_in({**refund, "external_id": refund.get("reference_id"), "status": fields["event"]})
    return ParsedCall(named=named, content=read_refund_call(refund, app_tag=app_tag))


def named_in(fields: dict[str, Any]) -> NamedFields:
    """Return what an object with the fields of an invoice names."""
    metadata = fields.get("metadata")
    return NamedFields(
        external_id=plain_text(fields.get("external_id")),
        gateway_invoice_id=plain_text(fields.get("id")),
        status=plain_text(fields.get("status")),
        amount=plain_text(fields.get("amount")),
        app_tag=plain_text(metadata.get("app")) if isinstance(metadata, dict) else None,
    )


def refund_in(body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the refund of a webhook call; None if the call is about something else.

    The gateway nests the refund in `data`, and in some versions that once more.
    """
    event = body.get("event")
    if not isinstance(event, str) or not is_refund_event(event):
        return None
    data = body.get("data")
    inner = data.get("data") if isinstance(data, dict) else None
    found = inner if isinstance(inner, dict) else data
    return found if isinstance(found, dict) else {}


def is_refund_event(status: str | None) -> bool:
    """Return whether the logged status of a webhook call is that of an event about a refund."""
    return status is not None and status.lower().startswith(REFUND_EVENTS)


def read_refund_call(refund: dict[str, Any], *, app_tag: str) -> RefundCall | UnreadableCall:
    """Return the refund of a call, or the case that decides it without looking it up."""
    named = refund.get("reference_id")
    reference = parse_id(named) if isinstance(named, str) else None
    if reference is None:  # of another system, or made by hand at the gateway
        return UnreadableCall(CallCase.NON_UUID)
    metadata = refund.get("metadata")
    app = metadata.get("app") if isinstance(metadata, dict) else None
    if app is not None and app != app_tag:
        return UnreadableCall(CallCase.FOREIGN_APP)
    refund_id, status = storable(refund.get("id")), storable(refund.get("status"), 50)
    if refund_id is None or status is None:
        return UnreadableCall(CallCase.INVALID_PAYLOAD)
    return RefundCall(
        refund_id=refund_id,
        reference=reference,
        state=_REFUND_STATES.get(status.upper(), RefundStateThere.PENDING),
        amount=whole_idr(refund.get("amount")),
        currency=storable(refund.get("currency")),
        failure_code=plain_text(refund.get("failure_code"), 100) or None,
        body=refund,
    )


def read_invoice_call(body: Any, *, app_tag: str) -> InvoiceCall | UnreadableCall:
    """Return the invoice of a call, or the case that decides it without looking up a request."""
    if not isinstance(body, dict):
        return UnreadableCall(CallCase.INVALID_PAYLOAD)
    external = body.get("external_id")
    if isinstance(external, bool) or not isinstance(external, str | int | float):
        return UnreadableCall(CallCase.INVALID_PAYLOAD)
    # First check whether the call is for us: calls for other systems behind the same gateway need not have our form.
    # Those systems use numbers as ids, or leave the id empty.
    external_id = parse_id(external)
    if external_id is None:
        return UnreadableCall(CallCase.NON_UUID)
    metadata = body.get("metadata")
    app = metadata.get("app") if isinstance(metadata, dict) else None
    if app is not None and app != app_tag:
        return UnreadableCall(CallCase.FOREIGN_APP)
    invoice_id, status, amount = (
        storable(body.get("id")),
        storable(body.get("status"), 50),
        whole_idr(body.get("amount")),
    )
    if invoice_id is None or status is None or amount is None:
        return UnreadableCall(CallCase.INVALID_PAYLOAD)
    call = InvoiceCall(
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
        return UnreadableCall(CallCase.INVALID_PAYLOAD)
    odd_paid_amount = body.get("paid_amount") is not None and call.paid_amount is None
    if call.is_paid and odd_paid_amount:
        return UnreadableCall(CallCase.INVALID_PAYLOAD)
    return call


def covers(call: InvoiceCall, amount: int) -> bool:
    """Return whether the call reports at least `amount` Rupiah, both invoiced and paid, in our currency."""
    paid = call.paid_amount if call.paid_amount is not None else call.amount
    if paid is None or paid < amount or (call.currency or CURRENCY) != CURRENCY:
        return False
    return call.amount is None or call.amount >= amount


def judge(call: InvoiceCall, facts: Facts) -> Judgement:
    """Return what follows from a call about a known request."""
    issued = facts.issued
    other_invoice = issued.invoice_id is not None and call.invoice_id != issued.invoice_id
    if call.status == "EXPIRED":  # if it is a surplus invoice's, the invoice that the customer has is still valid
        if issued.status is PaymentStatus.PENDING and not other_invoice:
            return Judgement(case=CallCase.EXPIRED, effect=Effect.EXPIRE)
        return Judgement(case=CallCase.IGNORED_STATUS)
    if not call.is_paid:
        return Judgement(case=CallCase.IGNORED_STATUS)
    if facts.owner is InvoiceOwner.MORE_MONEY:
        return Judgement(case=CallCase.DUPLICATE)
    if facts.owner is InvoiceOwner.ANOTHER:
        return Judgement(case=CallCase.CONFLICT, note="this invoice has paid another request")
    if other_invoice:
        return Judgement(case=CallCase.CONFLICT)
    return _judge_confirmed(call, facts) if issued.was_confirmed else _judge_payment(call, facts)


def _judge_confirmed(call: InvoiceCall, facts: Facts) -> Judgement:
    """Judge the payment of the request's invoice, if the request was confirmed before."""
    if facts.recorded is not None:
        return _judge_short(call, facts, facts.recorded)
    fits = covers(call, facts.issued.amount)
    if facts.issued.invoice_id is None and not fits:  # confirmed by hand: this is not the payment the operator had seen
        return Judgement(case=CallCase.CONFLICT)
    if facts.by_hand_at is not None and paid_after(call, facts.by_hand_at):
        if paid_by(call) == 0:
            note = "paid after an operator had confirmed the request by hand, in another currency"
            return Judgement(case=CallCase.CONFLICT, note=note)
        return Judgement(case=CallCase.LATE, effect=Effect.RECORD_MORE)
    return Judgement(
        case=CallCase.DUPLICATE, effect=Effect.KEEP if fits else Effect.NONE, note=_overpaid(call, facts.issued)
    )


def _judge_short(call: InvoiceCall, facts: Facts, recorded: int) -> Judgement:
    """Judge a call about an invoice of which less was paid than it asked for. The gateway reports the whole sum."""
    asked, paid = facts.issued.asked_amount, paid_by(call)
    assert asked is not None
    if paid == recorded:
        return Judgement(case=CallCase.DUPLICATE, effect=Effect.KEEP)
    if paid < recorded:
        return Judgement(case=CallCase.CONFLICT, note=f"paid {paid}, but {recorded} before")
    if not facts.may_grow:
        note = f"paid {paid - recorded} more of a short payment that was decided"
        return Judgement(case=CallCase.CONFLICT, effect=Effect.RECORD_MORE, note=note)
    if not covers(call, asked):
        return Judgement(case=CallCase.CONFLICT, effect=Effect.GROW, note=f"paid {paid} of {asked}: too little")
    over = f"overpaid by {paid - asked}" if paid > asked else None
    if (call.paid_at or facts.received_at) > facts.issued.expires_at + LATE_TOLERANCE:
        return Judgement(case=CallCase.LATE, effect=Effect.FAIL_WHOLE, note=over)
    if facts.has_obstacle:
        return Judgement(case=CallCase.NOT_PAIRABLE, effect=Effect.FAIL_WHOLE, note=over)
    return Judgement(case=CallCase.CONFIRMED, effect=Effect.COMPLETE, note=over)


def _judge_payment(call: InvoiceCall, facts: Facts) -> Judgement:
    """Judge the first payment of the request's invoice."""
    issued = facts.issued
    if not covers(call, issued.amount):
        return _judge_misfit(call, issued)
    note = _overpaid(call, issued)
    paid_at = call.paid_at or facts.received_at
    in_time = issued.status is PaymentStatus.EXPIRED and paid_at <= issued.expires_at + LATE_TOLERANCE
    if issued.status is not PaymentStatus.PENDING and not in_time:
        return Judgement(case=CallCase.LATE, effect=Effect.FAIL, note=note)
    if facts.has_obstacle:
        return Judgement(case=CallCase.NOT_PAIRABLE, effect=Effect.FAIL, note=note)
    return Judgement(case=CallCase.CONFIRMED, effect=Effect.CONFIRM, note=note)


def _judge_misfit(call: InvoiceCall, issued: Issued) -> Judgement:
    """Judge the payment of the request's invoice that does not cover the amount."""
    paid = paid_by(call)
    if 0 < paid < issued.amount and (call.amount is None or call.amount >= issued.amount):
        return Judgement(
            case=CallCase.CONFLICT, effect=Effect.FAIL_SHORT, note=f"paid {paid} of {issued.amount}: too little"
        )
    return Judgement(case=CallCase.CONFLICT)


def paid_after(call: InvoiceCall, confirmed_at: dt.datetime) -> bool:
    """Return whether a call reports money that was paid well after a request was confirmed.

    If an operator confirmed it by hand, this is other money than they had seen.
    """
    return call.is_paid and call.paid_at is not None and call.paid_at > confirmed_at + LATE_TOLERANCE


def paid_by(call: InvoiceCall) -> int:
    """Return how many Rupiah a call reports as paid; 0 if it is another currency."""
    paid = call.paid_amount if call.paid_amount is not None else call.amount
    return (paid or 0) if (call.currency or CURRENCY) == CURRENCY else 0


def _overpaid(call: InvoiceCall, issued: Issued) -> str | None:
    over = overpaid_by(call, issued)
    return f"overpaid by {over}" if over else None


def overpaid_by(call: InvoiceCall, issued: Issued) -> int:
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
