"""What mitras did, and the numbers that an operator looks at first (specification, Internal listener; contract 8)."""

from typing import Annotated

from litestar import get
from litestar.params import QueryParameter

from api.auth import operators
from api.bodies import query_id, query_time
from core.base.pages import Items, read_page
from core.reads import activity
from core.reads.activity import ActivityFilter
from core.runtime import Runtime


@get("/internal/mitra-activity/log", **operators("activity"))
async def log(
    runtime: Runtime,
    mitra_id: str | None = None,
    since: Annotated[str | None, QueryParameter(name="from")] = None,
    to: str | None = None,
    cursor: str | None = None,
    limit: int | None = None,
) -> Items[activity.ActivityRow]:
    """Requests to mitras and their answers, newest first."""
    which = ActivityFilter(
        mitra_id=query_id("mitra_id", mitra_id), since=query_time("from", since), until=query_time("to", to)
    )
    return await activity.log(runtime, read_page(cursor, limit), which)


@get("/internal/mitra-activity/summary", **operators("activity"))
async def summary(
    runtime: Runtime,
    mitra_id: str | None = None,
    since: Annotated[str | None, QueryParameter(name="from")] = None,
    to: str | None = None,
) -> Items[activity.ActivitySummary]:
    """Each mitra's figures in a range, the busiest first; the last 30 days when none is given."""
    return await activity.summary(
        runtime,
        since=query_time("from", since),
        until=query_time("to", to),
        mitra_id=query_id("mitra_id", mitra_id),
    )


@get("/internal/overview", **operators("activity"))
async def overview(runtime: Runtime) -> activity.Overview:
    """The numbers that an operator looks at first."""
    return await activity.overview(runtime)


ROUTES = [log, summary, overview]
