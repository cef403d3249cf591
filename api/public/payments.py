"""Prices and payment requests (contract 4)."""

from typing import Any

import attrs
from litestar import Request, get, post

from api.auth import customers
from api.bodies import Body, Id, choice, optional_integer, path_id
from core.base.actor import Actor
from core.flows import payment_request
from core.flows.payment_request import Wish
from core.reads import catalogue, payments
from core.runtime import Runtime


def _check_topics(_: object, __: object, value: list[str] | None) -> None:
    if value is None:
        return
    if len(value) > 12:
        raise ValueError("has at most 12 topics")
    if any(not 1 <= len(topic) <= 64 for topic in value):
        raise ValueError("has topics of 1 to 64 characters")


@attrs.frozen(kw_only=True)
class PaymentBody:
    """A wish to pay. With the discount `duration_minutes` may be left out."""

    mode: str = choice("chat", "call", default="chat")
    duration_minutes: int | None = optional_integer(1, 1440)
    first_session_discount: bool = False
    targeted_mitra_id: Id | None = None
    topics: list[str] | None = attrs.field(default=None, validator=_check_topics)


@get(["/api/client/chat/pricing", "/api/client/chat-pricing"], **customers())
async def pricing(runtime: Runtime, actor: Actor) -> catalogue.Pricing:
    """The price list, with the caller's eligibility for the discount."""
    return await catalogue.pricing(runtime, actor)


@get("/api/client/mitras/availability", **customers())
async def availability(request: Request[Any, Any, Any], runtime: Runtime) -> dict[str, int]:
    """How many mitras could take a request; at most 2 s old."""
    counter: catalogue.Availability = request.app.state.availability
    return {"available": await counter.count(runtime)}


@post(
    ["/api/client/payment/requests", "/api/client/payment/sessions"],
    status_code=201,
    dto=Body[PaymentBody],
    return_dto=None,
    **customers(),
)
async def request_payment(data: PaymentBody, runtime: Runtime, actor: Actor) -> payments.PaymentView:
    """Create a payment request."""
    wish = Wish(
        mode=data.mode,
        duration_minutes=data.duration_minutes,
        first_session_discount=data.first_session_discount,
        targeted_mitra_id=data.targeted_mitra_id,
        topics=data.topics,
    )
    made = await payment_request.request_payment(runtime, actor, wish)
    return await payments.payment(runtime, actor, made.id)


@get(
    ["/api/client/payment/requests/{request_id:str}", "/api/client/payment/sessions/{request_id:str}"],
    **customers(),
)
async def payment(request_id: str, runtime: Runtime, actor: Actor) -> payments.PaymentView:
    """One payment request of the caller's."""
    return await payments.payment(runtime, actor, path_id(request_id))


@post(
    [
        "/api/client/payment/requests/{request_id:str}/abandon",
        "/api/client/payment/sessions/{request_id:str}/abandon",
    ],
    status_code=200,
    **customers(),
)
async def abandon(request_id: str, runtime: Runtime, actor: Actor) -> payments.PaymentView:
    """Give a pending request up."""
    found = path_id(request_id)
    await payment_request.abandon(runtime, actor, payment_request_id=found)
    return await payments.payment(runtime, actor, found)


ROUTES = [pricing, availability, request_payment, payment, abandon]
