"""healthz, readyz, metrics (contract 1)."""

import attrs
from litestar import Response, get

from api.auth import INTERNAL, PUBLIC, anyone
from core.base import metrics
from core.runtime import Runtime


@attrs.frozen(kw_only=True)
class Alive:
    """The process answers."""

    status: str = "ok"


@attrs.frozen(kw_only=True)
class Ready:
    """It can work; `degraded`: without Redis, so slower to notice."""

    ready: bool = True
    degraded: bool


@attrs.frozen(kw_only=True)
class NotReady:
    """It can't work, and why."""

    ready: bool = False
    reason: str | None


@get("/healthz", **anyone(listeners=PUBLIC | INTERNAL))
async def healthz() -> Alive:
    """The process is alive."""
    return Alive()


@get("/readyz", also={503: NotReady}, **anyone(listeners=INTERNAL))
async def readyz(runtime: Runtime) -> Response[Ready | NotReady]:
    """503 unless the database answers and is migrated; Redis away is 200 and degraded."""
    ready, degraded, why = await runtime.ready()
    if not ready:
        return Response(NotReady(reason=why), status_code=503, headers={"Retry-After": "1"})
    return Response(Ready(degraded=degraded))


@get("/metrics", media_type="text/plain", **anyone(listeners=INTERNAL))
async def prometheus() -> bytes:
    """All figures of this process."""
    return metrics.exposition()
