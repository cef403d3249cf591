"""The route by which a party of a session reports the other one (docs/product.md#reports)."""

import attrs
from litestar import post

from api.auth import parties
from api.parameters import path_id
from api.request_bodies import Body, shown_text
from core.base.actor import Actor
from core.runtime.container import Runtime
from core.sessions.reports import report as session_report
from core.sessions.reports.report import ReportView
from core.sessions.reports.rules import LONGEST_MESSAGE, AlreadyReported, Reason


@attrs.frozen(kw_only=True)
class ReportBody:
    """Why the caller reports the other party of the session."""

    reason: Reason
    message: str | None = shown_text(LONGEST_MESSAGE, optional=True, low=0)


@post(
    "/api/shared/chat/sessions/{session_id:str}/report",
    status_code=201,
    dto=Body[ReportBody],
    return_dto=None,
    **parties(AlreadyReported),
)
async def report(session_id: str, data: ReportBody, runtime: Runtime, actor: Actor) -> ReportView:
    """Report the other party of a session to the operators.

    Each party can report a session once, also after its end. The other party gets no event.
    """
    return await session_report.report(
        runtime, actor, session_id=path_id(session_id), reason=data.reason, message=data.message
    )


ROUTES = [report]
