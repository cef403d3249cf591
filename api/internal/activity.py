"""Routes for the activity of mitras, and for the overview of the control center."""

from typing import Annotated, Any

from litestar import Request, get
from litestar.params import QueryParameter

from api.auth import operators
from api.parameters import query_id, query_time
from core.base import languages
from core.base.pages import ReportItems, read_page
from core.desk import activity, reports
from core.desk import figures as desk_figures
from core.desk import health as desk_health
from core.desk.activity import ActivityFilter
from core.runtime.container import Runtime


@get("/internal/mitra-activity/log", **operators("activity"))
async def log(
    runtime: Runtime,
    mitra_id: str | None = None,
    since: Annotated[str | None, QueryParameter(name="from")] = None,
    to: str | None = None,
    cursor: str | None = None,
    limit: int | None = None,
) -> ReportItems[activity.ActivityRow]:
    """List chat requests to mitras with their answers, newest first."""
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
) -> ReportItems[activity.ActivitySummary]:
    """Return the figures of each mitra.

    The mitra with the most chat requests is first. The default range is the last 30 days.
    """
    return await activity.summary(
        runtime,
        since=query_time("from", since),
        until=query_time("to", to),
        mitra_id=query_id("mitra_id", mitra_id),
    )


@get("/internal/unserved", **operators("activity"))
async def unserved_searches(
    runtime: Runtime,
    since: Annotated[str | None, QueryParameter(name="from")] = None,
    to: str | None = None,
) -> ReportItems[reports.UnservedHour]:
    """Return for each hour of the week, in UTC, how many searches began in it and how many found no mitra.

    Hours without a search are left out, and so are searches for one chosen mitra. The default range is the last 28
    days, the longest 92 days.
    """
    return await reports.unserved(runtime, since=query_time("from", since), until=query_time("to", to))


@get("/internal/promises", **operators("activity"))
async def promised_waits(
    runtime: Runtime,
    since: Annotated[str | None, QueryParameter(name="from")] = None,
    to: str | None = None,
) -> ReportItems[reports.PromisesOfDay]:
    """Return for each day, in UTC, which waits were promised to customers and how long they waited. Newest first.

    Days without a promise are left out. The default range is the last 28 days, the longest 92 days.
    """
    return await reports.promises(runtime, since=query_time("from", since), until=query_time("to", to))


@get("/internal/overview", **operators("activity"))
async def overview(runtime: Runtime) -> desk_figures.Overview:
    """Return the figures of the overview page."""
    return await desk_figures.overview(runtime)


@get("/internal/health", **operators("activity"))
async def health(request: Request[Any, Any, Any], runtime: Runtime) -> desk_health.Health:
    """Return whether each part of the service works: processes, database, Redis and providers.

    The messages are in the language of `Accept-Language`.
    """
    return await desk_health.health(runtime, languages.of_errors(request.headers.get("Accept-Language")))


ROUTES = [log, summary, unserved_searches, promised_waits, overview, health]
