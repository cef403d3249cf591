"""A payment request as its customer sees it."""

from collections.abc import Mapping
from typing import Any

import attrs

from core.base.field_types import Count, MitraId, Mode, PaymentRequestId, Positive, SessionId, Time
from core.payments.failures.causes import CauseTag, SubCause
from core.payments.failures.rules import OperatorAction
from core.payments.refunds.states import RefundStatus
from core.payments.states import PaymentStatus
from core.storage.fragments import NEWEST_FIRST
from core.storage.records import as_dict
from core.storage.transaction import Reader

COLUMNS = f"""p.id AS payment_request_id,
  p.status,
  p.mode,
  p.amount,
  p.duration_minutes,
  p.is_first_session_discount,
  p.is_extension,
  p.targeted_mitra_id,
  p.gateway_invoice_url,
  p.expires_at,
  p.created_at,
  p.confirmed_at,
  p.consumed_at,
  coalesce(
    p.extends_session_id,
    (
      SELECT s.id
      FROM chat_sessions AS s
      WHERE s.payment_request_id = p.id
      ORDER BY {NEWEST_FIRST}
      LIMIT 1
    )
  ) AS session_id,
  f.cause_tag,
  f.sub_cause,
  f.operator_action,
  f.actioned_at,
  r.status AS refund_status,
  b.amount AS back_amount,
  b.status AS back_status,
  b.settled_at AS back_settled_at,
  b.refunded AS back_refunded,
  w.p50_seconds AS promised_p50,
  w.p90_seconds AS promised_p90,
  w.made_at AS promised_at"""
LIVE_FAILURE = """LEFT JOIN pairing_failures AS f ON f.payment_request_id = p.id AND f.superseded_at IS NULL
LEFT JOIN refunds AS r ON r.failure_id = f.id
LEFT JOIN LATERAL (
  SELECT
    b.amount,
    b.status,
    b.settled_at,
    b.gateway_refund_id,
    coalesce(b.hand_reference, coalesce(b.reference, b.failure_id, b.id)::text) AS reference,
    coalesce(sum(b.amount) FILTER (WHERE b.status = 'succeeded') OVER (), 0)::int AS refunded
  FROM refunds AS b
  WHERE b.payment_request_id = p.id AND (b.failure_id IS NULL OR b.failure_id = f.id)
  ORDER BY b.id DESC
  LIMIT 1
) AS b ON true"""
PROMISE = "LEFT JOIN wait_promises AS w ON w.payment_request_id = p.id AND w.is_shown"
REQUEST = f"""SELECT
  {COLUMNS}
FROM payment_requests AS p
{LIVE_FAILURE}
{PROMISE}"""
ONE_OF = f"""{REQUEST}
WHERE p.id = $1 AND p.customer_id = ANY($2)"""
BY_IDS = f"""{REQUEST}
WHERE p.id = ANY($1)"""


@attrs.frozen(kw_only=True)
class PaymentFailure:
    """Why a paid request led to no chat, and what an operator has done about it. Fields without a value yet are null.
    `sub_cause` is what exactly happened, for causes that have several ways. `refund_status` is that of the refund
    through the gateway, null without one."""

    cause_tag: CauseTag = attrs.field(converter=CauseTag)
    sub_cause: SubCause | None = attrs.field(converter=attrs.converters.optional(SubCause))
    operator_action: OperatorAction | None = attrs.field(converter=attrs.converters.optional(OperatorAction))
    actioned_at: Time | None
    refund_status: RefundStatus | None = attrs.field(converter=attrs.converters.optional(RefundStatus))


@attrs.frozen(kw_only=True)
class PaymentRefund:
    """The newest refund of a payment: of a failed pairing through the gateway, or of earned money.

    `amount` and `settled_at` are its own, and `refunded` is what all refunds have given back. Amounts are in Rupiah.
    """

    amount: Positive
    status: RefundStatus = attrs.field(converter=RefundStatus)
    settled_at: Time | None
    refunded: Count


@attrs.frozen(kw_only=True)
class PromisedWait:
    """The wait that was promised at `at`: seconds from the confirmed payment until a mitra accepts.

    Half of the earlier searches at this time of day took at most `p50`, nine of ten at most `p90`.
    """

    p50: Positive
    p90: Positive
    at: Time


@attrs.frozen(kw_only=True)
class PaymentRequestView:
    """A request for payment, for a session or for more minutes of one. Amounts are in Rupiah.

    `promised` is null without an estimate, for a request to one mitra, and for an extension.
    """

    payment_request_id: PaymentRequestId
    status: PaymentStatus = attrs.field(converter=PaymentStatus)
    mode: Mode
    amount: Count
    duration_minutes: Positive
    is_first_session_discount: bool
    is_extension: bool
    targeted_mitra_id: MitraId | None
    gateway_invoice_url: str | None
    expires_at: Time
    created_at: Time
    confirmed_at: Time | None
    consumed_at: Time | None
    session_id: SessionId | None
    failure: PaymentFailure | None
    # The defaults are for answers that processes of earlier releases have stored.
    promised: PromisedWait | None = None
    refund: PaymentRefund | None = None


async def one_of(reader: Reader, payment_request_id: str, *, customer_ids: list[str]) -> PaymentRequestView | None:
    """Return a request of these customer ids; None if it belongs to another customer or does not exist."""
    row = await reader.fetchrow(ONE_OF, payment_request_id, customer_ids)
    return None if row is None else of_row(row)


async def by_ids(reader: Reader, payment_request_ids: list[str]) -> list[PaymentRequestView]:
    """Return the requests with these ids."""
    return [of_row(row) for row in await reader.fetch(BY_IDS, payment_request_ids)]


def of_row(row: Mapping[str, Any]) -> PaymentRequestView:
    """Build the view from a row of REQUEST."""
    values = as_dict(row)
    return PaymentRequestView(**parts_of(values), **values)


def parts_of(values: dict[str, Any]) -> dict[str, Any]:
    """Remove the columns of the failure, the promise and the refund from a row of REQUEST, and return these three."""
    return {"failure": failure_of(values), "promised": promise_of(values), "refund": refund_of(values)}


def failure_of(values: dict[str, Any]) -> PaymentFailure | None:
    """Remove the failure's columns from a row of REQUEST and return them; None without a live failure."""
    failure = {
        name: values.pop(name) for name in ("cause_tag", "sub_cause", "operator_action", "actioned_at", "refund_status")
    }
    return PaymentFailure(**failure) if failure["cause_tag"] is not None else None


def promise_of(values: dict[str, Any]) -> PromisedWait | None:
    """Remove the promise's columns from a row of REQUEST and return them as a PromisedWait; None without a promise."""
    promised = {name: values.pop(f"promised_{name}") for name in ("p50", "p90", "at")}
    return PromisedWait(**promised) if promised["at"] is not None else None


def refund_of(values: dict[str, Any]) -> PaymentRefund | None:
    """Remove the refund's columns from a row of REQUEST and return the refund; None without one."""
    refund = {name: values.pop(f"back_{name}") for name in ("amount", "status", "settled_at", "refunded")}
    return PaymentRefund(**refund) if refund["status"] is not None else None
