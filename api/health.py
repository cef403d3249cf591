"""Routes for health checks and metrics."""

from typing import Literal

import attrs
from litestar import Response, get

from api.auth import INTERNAL, PUBLIC, anyone
from core.runtime.container import Runtime
from core.telemetry import metrics


@attrs.frozen(kw_only=True)
class Alive:
    """The process is running."""

    status: Literal["ok"] = "ok"


@attrs.frozen(kw_only=True)
class Ready:
    """The process can work. `degraded` is true without Redis: it then notices changes later."""

    ready: bool = True
    degraded: bool


@attrs.frozen(kw_only=True)
class NotReady:
    """The process can't work, and why."""

    ready: bool = False
    reason: str | None


@get("/healthz", **anyone(listeners=PUBLIC | INTERNAL))
async def healthz() -> Alive:
    """Check that the process is running."""
    return Alive()


@get("/readyz", also={503: NotReady}, **anyone(listeners=INTERNAL))
async def readyz(runtime: Runtime) -> Response[Ready | NotReady]:
    """Check that the process can work.

    The status is 503 unless the database answers and is migrated. Without Redis it is 200, with `degraded`.
    """
    ready, degraded, why = await runtime.readiness.check()
    if not ready:
        return Response(NotReady(reason=why), status_code=503, headers={"Retry-After": "1"})
    return Response(Ready(degraded=degraded))


@get("/metrics", media_type="text/plain", **anyone(listeners=INTERNAL))
async def prometheus() -> bytes:
    """Return the metrics of this process."""
    return metrics.exposition()
