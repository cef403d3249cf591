"""Routes for the reports that customers and mitras make about sessions."""

import attrs
from litestar import get, patch

from api.auth import operators
from api.parameters import path_id, query_choice, query_id
from api.request_bodies import Body, shown_text
from core.base.actor import Actor
from core.base.pages import Items, read_page
from core.desk import disclosure, session_reports
from core.desk.session_reports import SessionReportView
from core.payments.refunds.rules import LONGEST_NOTE
from core.runtime.container import Runtime
from core.sessions.reports import report as session_report
from core.sessions.reports.rules import Reason, ReportResolved, ReportStatus, Resolution


@attrs.frozen(kw_only=True)
class ResolutionBody:
    """What you have done about the report, with a note for other operators."""

    resolution: Resolution
    note: str | None = shown_text(LONGEST_NOTE, optional=True, low=0)


@get("/internal/reports", **operators("reports"))
async def reports(
    runtime: Runtime,
    actor: Actor,
    status: str | None = None,
    reason: str | None = None,
    user_id: str | None = None,
    texts: bool = True,
    cursor: str | None = None,
    limit: int | None = None,
) -> Items[SessionReportView]:
    """List reports, newest first.

    `status` is `open` or `resolved`. `user_id` finds the reports about sessions of this customer or mitra, by either
    party. Messages and notes are hidden without `customers.pii`, and with `texts=false`; otherwise one audit row
    records that they were read.
    """
    return await session_reports.reports(
        runtime,
        actor if texts else disclosure.unread(actor),
        read_page(cursor, limit),
        status=query_choice("status", status, ReportStatus),
        reason=query_choice("reason", reason, Reason),
        user_id=query_id("user_id", user_id),
    )


@get("/internal/reports/{report_id:str}", **operators("reports"))
async def report(report_id: str, runtime: Runtime, actor: Actor) -> SessionReportView:
    """Return a report.

    Without `customers.pii`, its message and note are hidden.
    """
    return await session_reports.report(runtime, actor, path_id(report_id))


@patch(
    "/internal/reports/{report_id:str}",
    dto=Body[ResolutionBody],
    return_dto=None,
    **operators("reports", "write", ReportResolved),
)
async def resolve(report_id: str, data: ResolutionBody, runtime: Runtime, actor: Actor) -> SessionReportView:
    """Record what you have done about a report, once.

    It changes nothing else: a block or a refund is a separate call.
    """
    found = path_id(report_id)
    await session_report.resolve(runtime, actor, report_id=found, resolution=data.resolution, note=data.note)
    return await session_reports.report(runtime, actor, found, noted=False)


ROUTES = [reports, report, resolve]
