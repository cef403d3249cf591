"""What customers were promised, and how long they waited, day by day (docs/fairness.md#honest-promise)."""

import datetime as dt

import attrs

from core.base.pages import ReportItems, rounded_lag
from core.desk.report_range import report_range
from core.pairing.promises.store import OUTCOMES
from core.runtime.container import Runtime
from core.runtime.transactions import translate_db_errors
from core.storage import sql_files

SQL = sql_files.load(__file__)
DAYS = f"WITH outcomes AS (\n{OUTCOMES}\n)\n\n{SQL['days']}"


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
    with translate_db_errors():
        report = await runtime.reports.fetch(DAYS, now, begin, end)
    return ReportItems(
        items=[PromisesOfDay(**dict(row)) for row in report.rows], replica_lag_seconds=rounded_lag(report.lag_s)
    )
