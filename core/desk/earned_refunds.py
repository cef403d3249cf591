"""Reads of refunds of earned money (docs/product.md#making-good)."""

import datetime as dt
from typing import Any

import attrs

from core.base.actor import Actor
from core.base.field_types import Id, PaymentRequestId, Person, Positive
from core.base.pages import Items
from core.desk import disclosure
from core.payments.refunds import rules
from core.payments.refunds.states import OPEN, RefundStatus
from core.runtime.container import Runtime
from core.storage.records import as_dict

_REFUNDS = """SELECT
  r.id,
  r.payment_request_id,
  r.amount,
  r.status,
  r.by_hand,
  coalesce(r.hand_reference, coalesce(r.reference, r.id)::text) AS reference,
  r.reason,
  r.requested_by,
  o.display_name AS operator_name,
  r.requested_at,
  r.settled_at,
  r.gateway_refund_id,
  r.failure_code
FROM refunds AS r
JOIN control_center_users AS o ON o.id = r.requested_by
WHERE r.failure_id IS NULL AND """
ONE = f"{_REFUNDS} r.id = $1"
OF_PAYMENT = f"{_REFUNDS} r.payment_request_id = $1 ORDER BY r.id DESC"


@attrs.frozen(kw_only=True)
class EarnedRefund:
    """A refund of earned money, through the gateway or by hand. `amount` is in Rupiah.

    `reference` is the name of the transfer that the operator gave, or the one by which the gateway has the refund. After
    an erasure of the customer, a transfer's name is gone, and it is the id.
    `failure_code` is the gateway's reason. `reason` is what the operator wrote. `is_stuck` says that the gateway has
    not decided for more than two hours.
    """

    id: Id
    payment_request_id: PaymentRequestId
    amount: Positive
    status: RefundStatus = attrs.field(converter=RefundStatus)
    by_hand: bool
    reference: str
    reason: str | None
    requested_by: Person
    requested_at: dt.datetime
    settled_at: dt.datetime | None
    gateway_refund_id: str | None
    failure_code: str | None
    is_stuck: bool


def _refund(runtime: Runtime, actor: Actor, row: Any) -> EarnedRefund:
    values = as_dict(disclosure.row_as(row, "reason", may_read=disclosure.readable(actor)))
    by = Person(id=values.pop("requested_by"), display_name=values.pop("operator_name"))
    stuck = rules.is_stuck(is_open=values["status"] in OPEN, requested_at=values["requested_at"], now=runtime.now())
    return EarnedRefund(**values, requested_by=by, is_stuck=stuck)


async def one_of(runtime: Runtime, actor: Actor, refund_id: str) -> EarnedRefund:
    """Return a refund that the operator has just asked for: the row of their write covers the reading."""
    return _refund(runtime, actor, await runtime.db.fetchrow(ONE, refund_id))


async def of_payment(runtime: Runtime, actor: Actor, payment_request_id: str) -> Items[EarnedRefund]:
    """List the refunds of a payment, newest first; none for an unknown payment.

    Without `customers.pii`, reasons are hidden; with it, an audit row records that they were read. Raises Unavailable
    if it can't be written.
    """
    found = [_refund(runtime, actor, row) for row in await runtime.db.fetch(OF_PAYMENT, payment_request_id)]
    reading = disclosure.Reading(actor=actor)
    for one in found:
        reading.add(payment_request_id, reason=one.reason)
    await reading.note(runtime, "payment_request", listed=False)
    return Items(items=found)
