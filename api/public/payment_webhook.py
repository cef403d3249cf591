"""The gateway's webhook (docs/protocol.md#webhook)."""

import datetime as dt
from typing import Any

import attrs
from litestar import Request, Response, post

from api.auth import anyone, client_ip
from core.payments.gateway_calls import CallCase, ProcessingResult
from core.payments.webhooks import receive as webhook_receive
from core.payments.webhooks.receive import Incoming
from core.runtime.container import Runtime


@attrs.frozen(kw_only=True)
class GatewayCall:
    """The fields that the gateway sends. Unknown fields are allowed, and every body is stored before it is handled."""

    id: str
    external_id: str
    status: str
    amount: int
    paid_amount: int | None = None
    currency: str | None = None
    paid_at: dt.datetime | None = None
    payment_method: str | None = None
    payment_channel: str | None = None
    metadata: dict[str, Any] | None = None


@attrs.frozen(kw_only=True)
class WebhookAnswer:
    """How the call was handled."""

    received: bool = True
    processing_result: ProcessingResult


@post(
    "/api/shared/payment/webhooks/gateway",
    status_code=200,
    body=GatewayCall,
    headers=("X-Callback-Token",),
    also={case.http_status: WebhookAnswer for case in CallCase},
    **anyone(foreign_body=True),
)
async def gateway_webhook(request: Request[Any, Any, Any], runtime: Runtime) -> Response[WebhookAnswer]:
    """Receive a call of the payment gateway.

    The call is stored, handled and answered once. Any content type and any body is accepted.
    """
    headers = {name.lower(): value for name, value in request.headers.items()}
    incoming = Incoming(body=await request.body(), headers=headers, source_ip=client_ip(request))
    answer = await webhook_receive.receive(runtime, incoming)
    content = WebhookAnswer(processing_result=answer.processing_result)
    wait = {} if answer.retry_after_seconds is None else {"Retry-After": str(answer.retry_after_seconds)}
    return Response(content, status_code=answer.http_status, headers=wait)


ROUTES = [gateway_webhook]
