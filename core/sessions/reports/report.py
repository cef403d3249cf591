"""A party of a session reports the other one, and an operator resolves the report (docs/product.md#reports)."""

import attrs

from core.accounts.operators import store as operators
from core.base import shown_texts
from core.base.actor import Actor
from core.base.errors import NotFound
from core.base.field_types import Id, SessionId
from core.payments.refunds.rules import checked_note
from core.runtime.container import Runtime
from core.sessions import own_session
from core.sessions.reports import store as reports
from core.sessions.reports.rules import LONGEST_MESSAGE, AlreadyReported, Reason, ReportResolved, Resolution


@attrs.frozen(kw_only=True)
class ReportView:
    """A report, as the party sees it who has made it."""

    id: Id
    session_id: SessionId
    reason: Reason


async def report(runtime: Runtime, actor: Actor, *, session_id: str, reason: Reason, message: str | None) -> ReportView:
    """Report the other party of a session, once. The other party gets no event.

    `message` has at most 1,000 characters. Raises NotFound, also for a session without a mitra; AlreadyReported,
    ValidationFailed.
    """
    if message:
        shown_texts.check_text("message", message, most=LONGEST_MESSAGE)
    async with runtime.transaction() as tx:
        session, _ = await own_session.get(tx, actor, session_id=session_id)
        if session.mitra_id is None:
            raise NotFound
        report_id = await reports.add(
            tx, session_id, reporter=actor.user_type.value, reason=reason, message=message or None
        )
        if report_id is None:
            raise AlreadyReported
    return ReportView(id=Id(report_id), session_id=session.id, reason=reason)


async def resolve(runtime: Runtime, actor: Actor, *, report_id: str, resolution: Resolution, note: str | None) -> None:
    """Record what was done about a report, once, with a note for operators.

    Raises NotFound, ReportResolved, ValidationFailed.
    """
    words = checked_note("note", note)
    async with runtime.transaction() as tx:
        if not await reports.resolve(tx, report_id, resolution, operator_id=actor.user_id, note=words):
            raise ReportResolved if await reports.exists(tx, report_id) else NotFound
        await operators.audit(
            tx,
            actor.user_id,
            "report.resolved",
            "report",
            report_id,
            before={"resolution": None},
            after={"resolution": resolution.value},
        )
