"""healthz, readyz and metrics for the processes that run aiohttp (contract 1)."""

from aiohttp import web

from core.base import metrics
from core.runtime import Runtime


def add_probes(app: web.Application, runtime: Runtime) -> None:
    """Add the three routes."""

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
