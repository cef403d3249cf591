"""Reports by hour or day: unserved searches, and promises with what became of them.

See docs/fairness.md#when-customers-are-not-served and docs/fairness.md#honest-promise.
"""

import datetime as dt

import attrs

from core.base.errors import ValidationFailed
from core.base.languages import Text
from core.base.pages import ReportItems, rounded_lag
from core.pairing.promises.store import OUTCOMES
from core.runtime.container import Runtime
from core.storage import sql_files

SQL = sql_files.load(__file__)
DAYS = f"WITH outcomes AS (\n{OUTCOMES}\n)\n\n{SQL['days']}"
USUAL = dt.timedelta(days=28)  # the default range: four of each weekday
MOST = dt.timedelta(days=92)  # a quarter; bounds what one request reads
EARLIEST = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)  # no data is older; keeps a range from beginning before the year 1


def report_range(
    since: dt.datetime | None, until: dt.datetime | None, *, now: dt.datetime
) -> tuple[dt.datetime, dt.datetime]:
    """Return the begin and end of a report; by default the last 28 days.

    Raises ValidationFailed if the range is empty or longer than MOST.
    """
    end = until or now
    begin = since or max(end, EARLIEST) - USUAL
    if begin >= end:
        raise ValidationFailed.of("to", Text(en="must be after `from`", id="harus setelah `from`"))
    if end - begin > MOST:
        raise ValidationFailed.of(
            "from", Text(en="must be at most 92 days before `to`", id="paling lama 92 hari sebelum `to`")
        )
    return begin, end


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
    report = await runtime.reports.fetch(SQL["unserved"], begin, end)
    return ReportItems(
        items=[UnservedHour(**dict(row)) for row in report.rows], replica_lag_seconds=rounded_lag(report.lag_s)
    )


@attrs.frozen(kw_only=True)
class PromisesOfDay:
    """The waits that were promised on one day, in UTC, and what became of them.

    `made` were shown to customers. It is the sum of `not_searched` (not paid, or paid without a search), `waiting` (the
    promised time is not over yet), `kept` (accepted within p90), `late` (not accepted within p90), `not_found` (the
    search ended without a mitra) and `cancelled` (by the customer or an operator, before p90 was over). `kept_p50` are
    those of `kept` that were accepted within p50.

    The medians are over `kept`, `late` and `not_found`: of the promised seconds, and of the actual wait, which is null
    if fewer than half were accepted. `actual_p90_seconds` is the wait within which nine of ten were accepted, null if
    fewer were. `withheld` were made while estimates were withdrawn, and are in no other number; `withheld_missed` of
    them missed p90.
    """

    day: dt.date
    made: int
    not_searched: int
    waiting: int
    kept: int
    kept_p50: int
    late: int
    not_found: int
    cancelled: int
    promised_p50_seconds: int | None
    actual_p50_seconds: int | None
    promised_p90_seconds: int | None
    actual_p90_seconds: int | None
    withheld: int
    withheld_missed: int


async def promises(
    runtime: Runtime, *, since: dt.datetime | None, until: dt.datetime | None
) -> ReportItems[PromisesOfDay]:
    """Return the promises that were made between `since` and `until`, by day, newest first.

    The default are the last 28 days. Raises ValidationFailed if the range is empty or too long.
    """
    now = runtime.now()
    begin, end = report_range(since, until, now=now)
    report = await runtime.reports.fetch(DAYS, now, begin, end)
    return ReportItems(
        items=[PromisesOfDay(**dict(row)) for row in report.rows], replica_lag_seconds=rounded_lag(report.lag_s)
    )
