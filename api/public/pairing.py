"""Routes for the customer's side of pairing (docs/protocol.md#pairing)."""

from typing import Any

import attrs
from litestar import Request, post

from api.auth import client_ip, customers
from api.idempotency import ADDED, key_of
from api.public.payments import PAYING, topics_field
from api.request_bodies import Body, integer, optional_integer
from core.accounts.customers.rules import AccountBlocked
from core.accounts.mitras.rules import MitraAtCapacity, MitraOffline
from core.base.actor import Actor
from core.base.errors import NotFound
from core.base.field_types import MitraId, Mode, PaymentRequestId
from core.idempotency.rules import IdempotencyInFlight, IdempotencyMismatch
from core.pairing import cancel as pairing_cancel
from core.pairing import fallback as pairing_fallback
from core.pairing import request as payment_request
from core.pairing import retarget as pairing_retarget
from core.pairing.request import PaymentWish
from core.pairing.rules import SessionNotSearching
from core.payments import show as show_payments
from core.payments.failures.rules import FailureActioned, NotTargeted
from core.payments.pricing.rules import DiscountNotEligible
from core.payments.rules import NotPreviousMitra, PaymentNotConfirmed, SessionInProgress
from core.payments.views import PaymentRequestView
from core.runtime.container import Runtime
from core.sessions.views import SessionView


@attrs.frozen(kw_only=True)
class RequestBody:
    """A payment request of the caller."""

    payment_request_id: PaymentRequestId


@attrs.frozen(kw_only=True)
class RetargetBody:
    """A failed payment request of the caller, and a mitra of an earlier session to ask now."""

    payment_request_id: PaymentRequestId
    mitra_id: MitraId


@attrs.frozen(kw_only=True)
class ReturningBody:
    """A payment request for a chat with a mitra from an earlier session. With `expected_amount`, the price that the
    customer was shown, another price is refused."""

    mitra_id: MitraId
    mode: Mode
    duration_minutes: int = integer(1, 1440)
    topics: list[str] | None = topics_field()
    expected_amount: int | None = optional_integer(0, metadata=ADDED)


@post(
    "/api/client/chat/returning",
    status_code=201,
    dto=Body[ReturningBody],
    return_dto=None,
    idempotent=True,
    **customers(*PAYING),
)
async def returning(
    data: ReturningBody, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor
) -> PaymentRequestView:
    """Create a payment request for a chat with a mitra from an earlier session.

    The mitra must be available now.
    """
    wish = PaymentWish(
        mode=data.mode,
        duration_minutes=data.duration_minutes,
        first_session_discount=False,
        targeted_mitra_id=data.mitra_id,
        topics=data.topics,
        expected_amount=data.expected_amount,
    )
    key = key_of(request, actor, "returning", data)
    return await payment_request.request_payment(runtime, actor, wish, address=client_ip(request), key=key)


@post(
    "/api/client/chat/retarget",
    status_code=201,
    dto=Body[RetargetBody],
    return_dto=None,
    idempotent=True,
    **customers(
        NotFound,
        AccountBlocked,
        NotTargeted,
        FailureActioned,
        SessionInProgress,
        NotPreviousMitra,
        MitraOffline,
        MitraAtCapacity,
        DiscountNotEligible,
        IdempotencyMismatch,
        IdempotencyInFlight,
    ),
)
async def retarget(
    data: RetargetBody, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor
) -> PaymentRequestView:
    """Ask another mitra from an earlier session, without another payment.

    This is possible after the request has failed with a `targeted_…` cause. The mitra must be available now.
    """
    key = key_of(request, actor, "retarget", data)
    return await pairing_retarget.retarget(
        runtime, actor, payment_request_id=data.payment_request_id, mitra_id=data.mitra_id, key=key
    )


@post(
    "/api/client/chat/cancel",
    status_code=200,
    dto=Body[RequestBody],
    return_dto=None,
    **customers(NotFound, SessionNotSearching),
)
async def cancel(data: RequestBody, runtime: Runtime, actor: Actor) -> PaymentRequestView:
    """Cancel a payment request or its search.

    This is possible until a mitra has accepted.
    """
    await pairing_cancel.cancel(runtime, actor, payment_request_id=data.payment_request_id)
    return await show_payments.payment(runtime, actor, data.payment_request_id)


@post(
    "/api/client/chat/fallback-to-blast",
    status_code=200,
    dto=Body[RequestBody],
    return_dto=None,
    **customers(NotFound, AccountBlocked, NotTargeted, FailureActioned, SessionInProgress, DiscountNotEligible),
)
async def fall_back(data: RequestBody, runtime: Runtime, actor: Actor) -> PaymentRequestView:
    """Turn a targeted request into a blast, which asks all eligible mitras.

    This is possible while the request is open and after it has failed.
    """
    await pairing_fallback.fall_back(runtime, actor, payment_request_id=data.payment_request_id)
    return await show_payments.payment(runtime, actor, data.payment_request_id)


@post(
    "/api/client/chat/request",
    status_code=202,
    dto=Body[RequestBody],
    return_dto=None,
    **customers(NotFound, AccountBlocked, PaymentNotConfirmed, SessionInProgress),
)
async def start_by_hand(data: RequestBody, runtime: Runtime, actor: Actor) -> SessionView:
    """Start the pairing of a confirmed request (deprecated).

    The service does this when the payment is confirmed. If the request has a session already, that session is returned.
    """
    return await pairing_fallback.start_by_hand(runtime, actor, payment_request_id=data.payment_request_id)


ROUTES = [returning, retarget, cancel, fall_back, start_by_hand]
