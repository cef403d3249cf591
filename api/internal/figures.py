"""The route for the figures of the business."""

import datetime as dt
from typing import Annotated

from litestar import get
from litestar.params import QueryParameter

from api.auth import operators
from api.parameters import query_choice
from core.desk import business_figures
from core.desk.business_figures import By, Figures
from core.runtime.container import Runtime


@get("/internal/figures", **operators("payments"))
async def figures(
    runtime: Runtime,
    since: Annotated[dt.date | None, QueryParameter(name="from")] = None,
    to: dt.date | None = None,
    by: str | None = None,
) -> Figures:
    """Return the figures of the business by `day`, `mode`, `tier`, `channel` or `cause`; by default by day.

    `from` and `to` are days in the time zone of the configuration row `business_time_zone`, both included. The default
    are the last 30 days, the longest range 92 days.
    """
    return await business_figures.figures(runtime, first=since, last=to, by=By(query_choice("by", by, By) or By.DAY))


ROUTES = [figures]
