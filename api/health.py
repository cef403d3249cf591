"""healthz, readyz, metrics (contract 1)."""

from typing import Any

from litestar import Response, get

from api.auth import INTERNAL, PUBLIC, anyone
from core.base import metrics
from core.runtime import Runtime


@get("/healthz", **anyone(listeners=PUBLIC | INTERNAL))
async def healthz() -> dict[str, str]:
    """The process is alive."""
    return {"status": "ok"}


@get("/readyz", **anyone(listeners=INTERNAL))
async def readyz(runtime: Runtime) -> Response[Any]:
    """503 unless the database answers and is migrated; Redis away is 200 and degraded."""
    ready, degraded, why = await runtime.ready()
    if not ready:
        return Response({"ready": False, "reason": why}, status_code=503, headers={"Retry-After": "1"})
    return Response({"ready": True, "degraded": degraded})


@get("/metrics", media_type="text/plain", **anyone(listeners=INTERNAL))
async def prometheus() -> bytes:
    """All figures of this process."""
    return metrics.exposition()
