"""Routes by which support looks up payment requests and confirms them."""

from typing import Annotated

from litestar import get, post
from litestar.params import QueryParameter

from api.auth import operators
from api.parameters import path_id, query_choice, query_time
from core.base.actor import Actor
from core.base.pages import Items, read_page
from core.desk import support
from core.desk.support import LookUp
from core.desk.timeline import timeline
from core.payments import confirm as payment_confirm
from core.payments.rules import PaymentNotPending
from core.payments.states import PaymentStatus
from core.runtime.container import Runtime


@get("/internal/payment-requests", **operators("payments"))
async def payment_requests(
    runtime: Runtime,
    q: str | None = None,
    since: Annotated[str | None, QueryParameter(name="from")] = None,
    to: str | None = None,
    status: str | None = None,
    cursor: str | None = None,
    limit: int | None = None,
) -> Items[support.SupportPayment]:
    """List payment requests, newest first.

    `q` is a part of the customer's name, or the id of a request, customer, mitra, session or invoice.
    """
    which = LookUp(
        q=q,
        since=query_time("from", since),
        until=query_time("to", to),
        status=query_choice("status", status, PaymentStatus),
    )
    return await support.payments(runtime, read_page(cursor, limit), which)


@get("/internal/payment-requests/{request_id:str}", **operators("payments"))
async def payment_request(request_id: str, runtime: Runtime) -> support.SupportPayment:
    """Return a payment request."""
    return await support.payment(runtime, path_id(request_id))


@get("/internal/payment-requests/{request_id:str}/timeline", **operators("payments"))
async def payment_timeline(request_id: str, runtime: Runtime, actor: Actor) -> timeline.Timeline:
    """Return the timeline of a payment: everything that happened to it, and why it led to no chat, if so."""
    return await timeline.timeline(runtime, actor, path_id(request_id))


@post(
    "/internal/payment-requests/{request_id:str}/confirm",
    status_code=200,
    **operators("payments", "write", PaymentNotPending, step_up=True),
)
async def confirm(request_id: str, runtime: Runtime, actor: Actor) -> support.SupportPayment:
    """Confirm a pending request by hand.

    Do this only if you have seen the money elsewhere.
    """
    found = path_id(request_id)
    await payment_confirm.confirm(runtime, actor, payment_request_id=found)
    return await support.payment(runtime, found)


ROUTES = [payment_requests, payment_request, payment_timeline, confirm]
