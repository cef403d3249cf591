"""The gateway's callback (contract 4)."""

from typing import Any

from litestar import Request, Response, post

from api.auth import anyone, client_ip
from core.flows import webhook_receive
from core.flows.webhook_receive import Incoming
from core.runtime import Runtime


@post("/api/shared/payment/webhooks/gateway", status_code=200, **anyone(foreign_body=True))
async def gateway_webhook(request: Request[Any, Any, Any], runtime: Runtime) -> Response[Any]:
    """Record, judge, act, stamp, answer once. Any content type, any body."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    incoming = Incoming(body=await request.body(), headers=headers, source_ip=client_ip(request))
    answer = await webhook_receive.receive(runtime, incoming)
    content = {"received": True, "processing_result": answer.processing_result}
    return Response(content, status_code=answer.http_status)


ROUTES = [gateway_webhook]
