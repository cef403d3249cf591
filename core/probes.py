"""healthz, readyz and metrics for the processes that run aiohttp (contract 1)."""

from typing import Any

from aiohttp import web

from core.base import ids, metrics
from core.base.clock import as_text
from core.runtime import Runtime

NO_SUCH = {
    404: ("NOT_FOUND", "There is no such thing here."),
    405: ("METHOD_NOT_ALLOWED", "This address does not take that method."),
}


def add_probes(app: web.Application, runtime: Runtime) -> None:
    """Add the three routes, the one error body for every other address, and the headers of every answer."""

    @web.middleware
    async def in_our_words(request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPException as refused:
            code, message = NO_SUCH.get(refused.status, ("ERROR", "The request can't be answered."))
            return web.json_response({"error": {"code": code, "message": message}}, status=refused.status)

    app.middlewares.append(in_our_words)

    async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.setdefault("X-Server-Time", as_text(runtime.now()))
        response.headers.setdefault("X-Request-Id", ids.request_id(request.headers.get("X-Request-Id", "")))

    app.on_response_prepare.append(add_headers)

    async def healthz(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def readyz(_: web.Request) -> web.Response:
        ready, degraded, why = await runtime.ready()
        if not ready:
            return web.json_response({"ready": False, "reason": why}, status=503, headers={"Retry-After": "1"})
        return web.json_response({"ready": True, "degraded": degraded})

    async def prometheus(_: web.Request) -> web.Response:
        return web.Response(body=metrics.exposition(), content_type="text/plain")

    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", prometheus)
