"""Reads of the reports about sessions, for operators (docs/product.md#reports)."""

import datetime as dt
from typing import Any

import attrs

from core.base.actor import Actor
from core.base.errors import NotFound
from core.base.field_types import Id, Party, Person, SessionId
from core.base.pages import Items, Page, cut
from core.desk import disclosure
from core.runtime.container import Runtime
from core.sessions.reports.rules import Reason, ReportStatus, Resolution
from core.storage.conditions import Conditions
from core.storage.fragments import ACCOUNT, NAME
from core.storage.records import as_dict

REPORTS = f"""SELECT
  r.id,
  r.session_id,
  s.customer_id,
  {NAME} AS customer_name,
  s.mitra_id,
  m.display_name AS mitra_name,
  r.reporter,
  r.reason,
  r.message,
  r.resolution,
  r.note,
  r.resolved_by,
  o.display_name AS operator_name,
  r.resolved_at,
  r.created_at
FROM session_reports AS r
JOIN chat_sessions AS s ON s.id = r.session_id
JOIN customers AS c ON c.id = s.customer_id
{ACCOUNT}
JOIN mitras AS m ON m.id = s.mitra_id
LEFT JOIN control_center_users AS o ON o.id = r.resolved_by"""
REPORT = f"""{REPORTS}
WHERE r.id = $1"""
OPEN_REPORTS = """SELECT count(*)::int
FROM session_reports
WHERE resolution IS NULL"""
REPORTS_PAGE = f"""{REPORTS}
WHERE {{where}}
ORDER BY r.created_at DESC, r.id DESC
LIMIT {{limit}}"""

# Reports about sessions of a customer's account or of a mitra.
OF_PERSON = """EXISTS (
  SELECT
  FROM chat_sessions AS s
  JOIN customers AS c ON c.id = s.customer_id
  WHERE s.id = r.session_id AND {0}::uuid IN (s.mitra_id, s.customer_id, c.account_belongs_to)
)"""


@attrs.frozen(kw_only=True)
class SessionReportView:
    """A report of one party of a session (`reporter`) about the other one, and what an operator has done about it.

    `note` is for operators only.
    """

    id: Id
    session_id: SessionId
    customer: Person
    mitra: Person
    reporter: Party
    reason: Reason = attrs.field(converter=Reason)
    message: str | None
    status: ReportStatus
    resolution: Resolution | None = attrs.field(converter=attrs.converters.optional(Resolution))
    note: str | None
    resolved_by: Person | None
    resolved_at: dt.datetime | None
    created_at: dt.datetime


def _view(actor: Actor, row: Any) -> SessionReportView:
    values = as_dict(disclosure.row_as(row, "message", "note", may_read=disclosure.readable(actor)))
    by, name = values.pop("resolved_by"), values.pop("operator_name")
    customer, mitra = [
        Person(id=values.pop(f"{one}_id"), display_name=values.pop(f"{one}_name")) for one in ("customer", "mitra")
    ]
    return SessionReportView(
        **values,
        customer=customer,
        mitra=mitra,
        status=ReportStatus.OPEN if values["resolution"] is None else ReportStatus.RESOLVED,
        resolved_by=None if by is None else Person(id=by, display_name=name),
    )


async def _note(runtime: Runtime, actor: Actor, shown: list[SessionReportView], *, listed: bool) -> None:
    """Write the audit row about the messages and notes that the operator reads."""
    reading = disclosure.Reading(actor=actor)
    for one in shown:
        reading.add(one.id, message=one.message, note=one.note)
    await reading.note(runtime, "report", listed=listed)


async def reports(
    runtime: Runtime, actor: Actor, page: Page, *, status: str | None, reason: str | None, user_id: str | None
) -> Items[SessionReportView]:
    """List reports, newest first; optionally only open or resolved ones, those with one reason, or those about sessions
    of one customer, with all of their account, or mitra.

    Without `customers.pii`, messages and notes are hidden; with it, an audit row records that they were read. Raises
    Unavailable if it can't be written.
    """
    where = Conditions()
    where.add("r.reason = {0}", reason)
    where.add(OF_PERSON, user_id)
    if status is not None:
        where.plain("r.resolution IS NULL" if status == ReportStatus.OPEN else "r.resolution IS NOT NULL")
    where.behind("r.created_at", "r.id", before_at=page.before_at, before_id=page.before_id)
    limit = where.arg(page.limit + 1)
    rows = await runtime.db.fetch(REPORTS_PAGE.format(where=where, limit=limit), *where.args)
    found = cut([_view(actor, row) for row in rows], page, at="created_at")
    await _note(runtime, actor, found.items, listed=True)
    return found


async def open_reports(runtime: Runtime) -> int:
    """Return how many reports no operator has resolved."""
    return await runtime.db.fetchval(OPEN_REPORTS)


async def report(runtime: Runtime, actor: Actor, report_id: str, *, noted: bool = True) -> SessionReportView:
    """Return a report.

    Without `noted`, the audit row of the operator's write covers the reading. Raises NotFound, and Unavailable if the
    audit row can't be written.
    """
    row = await runtime.db.fetchrow(REPORT, report_id)
    if row is None:
        raise NotFound
    found = _view(actor, row)
    if noted:
        await _note(runtime, actor, [found], listed=False)
    return found
