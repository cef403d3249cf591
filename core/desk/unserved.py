"""Searches that found no mitra, by hour of the week (docs/fairness.md#when-customers-are-not-served)."""

import datetime as dt

import attrs

from core.base.pages import ReportItems, rounded_lag
from core.desk.report_range import report_range
from core.runtime.container import Runtime
from core.runtime.transactions import translate_db_errors
from core.storage import sql_files

SQL = sql_files.load(__file__)


@attrs.frozen(kw_only=True)
class UnservedHour:
    """The searches that began in one hour of the week, in UTC.

    `weekday` is 1 (Monday) to 7, `hour` 0 to 23. `unserved` are those of `searches` that ended without a mitra and were
    not cancelled.
    """

    weekday: int
    hour: int
    searches: int
    unserved: int


async def unserved(
    runtime: Runtime, *, since: dt.datetime | None, until: dt.datetime | None
) -> ReportItems[UnservedHour]:
    """Return the hours of the week in which searches began between `since` and `until`; by default the last 28 days.

    Raises ValidationFailed if the range is empty or too long.
    """
    begin, end = report_range(since, until, now=runtime.now())
    with translate_db_errors():
        report = await runtime.reports.fetch(SQL["unserved"], begin, end)
    return ReportItems(
        items=[UnservedHour(**dict(row)) for row in report.rows], replica_lag_seconds=rounded_lag(report.lag_s)
    )
