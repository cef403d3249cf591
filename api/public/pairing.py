"""The customer's side of a search (contract 5)."""

import attrs
from litestar import post

from api.auth import customers
from api.bodies import Body, Id
from core.base.actor import Actor
from core.base.errors import NotFound
from core.flows import pairing_leave
from core.pairing.rules import SessionNotSearching
from core.reads import payments
from core.runtime import Runtime


@attrs.frozen(kw_only=True)
class RequestBody:
    """Names a payment request."""

    payment_request_id: Id


@post(
    "/api/client/chat/cancel",
    status_code=200,
    dto=Body[RequestBody],
    return_dto=None,
    **customers(NotFound, SessionNotSearching),
)
async def cancel(data: RequestBody, runtime: Runtime, actor: Actor) -> payments.PaymentView:
    """Leave, at whatever moment before a mitra has come."""
    await pairing_leave.cancel(runtime, actor, payment_request_id=data.payment_request_id)
    return await payments.payment(runtime, actor, data.payment_request_id)


ROUTES = [cancel]
