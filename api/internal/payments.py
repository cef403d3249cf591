"""Routes by which support looks up payment requests and confirms them."""

from typing import Annotated, Any

import attrs
from litestar import Request, Response, get, post
from litestar.params import QueryParameter

from api import errors
from api.auth import operators
from api.idempotency import key_of
from api.parameters import path_id, query_choice, query_time
from api.request_bodies import Body, optional_text, shown_text
from core.base import field_messages
from core.base.actor import Actor
from core.base.errors import ValidationFailed
from core.base.pages import Items, read_page
from core.desk import earned_refunds, support
from core.desk.earned_refunds import EarnedRefund
from core.desk.support import LookUp, RefundFilter
from core.desk.timeline import timeline
from core.idempotency.rules import IdempotencyInFlight, IdempotencyMismatch
from core.payments import confirm as payment_confirm
from core.payments.failures.rules import FailureActioned
from core.payments.refunds import make_good as refund_earned
from core.payments.refunds.rules import (
    LONGEST_NOTE,
    LONGEST_REFERENCE,
    REFERENCE,
    NotRefundable,
    PaymentNotConsumed,
    RefundExceedsPaid,
    RefundsDisabled,
)
from core.payments.rules import PaymentNotPending, SessionInProgress
from core.payments.states import PaymentStatus
from core.runtime.container import Runtime


@attrs.frozen(kw_only=True)
class MakeGoodBody:
    """How much earned money goes back, and why. The customer does not see the reason.

    `by_hand`: you have moved the money yourself. Then `reference` is the number of that transfer: letters and digits
    with single separators between them, and no phone number.
    """

    amount: int  # one that is out of range is refused as REFUND_EXCEEDS_PAID
    reason: str = shown_text(LONGEST_NOTE)
    by_hand: bool = False
    reference: str | None = optional_text(
        1, LONGEST_REFERENCE, metadata={"schema": {"pattern": f"^{REFERENCE.pattern}$"}}
    )


@get("/internal/payment-requests", **operators("payments"))
async def payment_requests(
    runtime: Runtime,
    actor: Actor,
    q: str | None = None,
    since: Annotated[str | None, QueryParameter(name="from")] = None,
    to: str | None = None,
    status: str | None = None,
    refund: str | None = None,
    cursor: str | None = None,
    limit: int | None = None,
) -> Items[support.SupportPayment]:
    """List payment requests, newest first.

    `q` is a part of the customer's name, their phone number, an amount, or the id of a request, customer, mitra,
    session or invoice. `refund` finds payments whose money is `to_refund`, `refunding` or `refunded`, and those whose
    refund has `failed`.
    """
    which = LookUp(
        q=q,
        since=query_time("from", since),
        until=query_time("to", to),
        status=query_choice("status", status, PaymentStatus),
        refund=query_choice("refund", refund, RefundFilter),
    )
    return await support.payments(runtime, actor, read_page(cursor, limit), which)


@get("/internal/payment-requests/{request_id:str}", **operators("payments"))
async def payment_request(request_id: str, runtime: Runtime) -> support.SupportPayment:
    """Return a payment request."""
    return await support.payment(runtime, path_id(request_id))


@get("/internal/payment-requests/{request_id:str}/timeline", **operators("payments"))
async def payment_timeline(
    request_id: str, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor
) -> timeline.Timeline:
    """Return the timeline of a payment: everything that happened to it, and why it led to no chat, if so."""
    return await timeline.timeline(runtime, actor, path_id(request_id), errors.language_of(request.scope))


@post(
    "/internal/payment-requests/{request_id:str}/confirm",
    status_code=200,
    **operators("payments", "write", FailureActioned, PaymentNotPending, SessionInProgress, step_up=True),
)
async def confirm(request_id: str, runtime: Runtime, actor: Actor) -> support.SupportPayment:
    """Confirm a pending request by hand, or accept a short payment for what was paid.

    Confirm a pending request only if you have seen the money elsewhere. A short payment is a failed pairing with the
    cause `payment_short`: this starts its search, at the amount that was paid.
    """
    found = path_id(request_id)
    await payment_confirm.confirm(runtime, actor, payment_request_id=found)
    return await support.payment(runtime, found)


@get("/internal/payment-requests/{request_id:str}/refunds", **operators("payments"))
async def refunds(request_id: str, runtime: Runtime, actor: Actor) -> Items[EarnedRefund]:
    """List the refunds of a payment's earned money, newest first.

    Without `customers.pii`, reasons are hidden.
    """
    return await earned_refunds.of_payment(runtime, actor, path_id(request_id))


@post(
    "/internal/payment-requests/{request_id:str}/refund",
    status_code=202,
    dto=Body[MakeGoodBody],
    return_dto=None,
    idempotent=True,
    also={201: EarnedRefund},
    **operators(
        "payments",
        "write",
        IdempotencyInFlight,
        IdempotencyMismatch,
        NotRefundable,
        PaymentNotConsumed,
        RefundExceedsPaid,
        RefundsDisabled,
        step_up=True,
    ),
)
async def make_good(
    request_id: str, data: MakeGoodBody, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor
) -> Response[EarnedRefund]:
    """Give earned money back, in whole or in part, also while the chat runs.

    Through the gateway (202), the answer does not wait for it: `status` changes later. By hand (201), the refund is
    done. A repeat with the same `Idempotency-Key`, or by hand with the same reference, gets the first refund as it is
    now. So does a repeat without a key, while your refund through the gateway with the same amount and reason is under
    way.
    """
    found = path_id(request_id)
    key = key_of(request, actor, f"refund of {found}", data)
    if data.by_hand != (data.reference is not None):
        raise ValidationFailed.of("reference", field_messages.BY_HAND_ONLY)
    if data.reference is None:
        refund_id = await refund_earned.request(
            runtime, actor, payment_request_id=found, amount=data.amount, reason=data.reason, key=key
        )
    else:
        refund_id = await refund_earned.record(
            runtime,
            actor,
            payment_request_id=found,
            amount=data.amount,
            reason=data.reason,
            reference=data.reference,
            key=key,
        )
    view = await earned_refunds.one_of(runtime, actor, refund_id)
    return Response(view, status_code=202 if data.reference is None else 201)


ROUTES = [payment_requests, payment_request, payment_timeline, refunds, confirm, make_good]
