"""Write reports about sessions, and remove their texts."""

import datetime as dt

from core.base import ids
from core.sessions.reports.rules import Reason, Resolution
from core.sessions.reports.tables import SessionReport as Reports
from core.storage import sql_files
from core.storage.statements import insert, p, statement
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)
ADD = statement(
    insert(Reports, "id session_id reporter reason message created_at")
    .on_conflict((Reports.session_id, Reports.reporter), "DO NOTHING")
    .returning(Reports.id)
)
EXISTS = statement(Reports.select(Reports.id).where(Reports.id == p.id))
RESOLVE = statement(
    Reports.update(resolution=p.resolution, note=p.note, resolved_by=p.operator_id, resolved_at=p.now).where(
        Reports.id == p.id, Reports.resolution.is_null()
    )
)


async def add(tx: Tx, session_id: str, *, reporter: str, reason: Reason, message: str | None) -> str | None:
    """Store a report and return its id; None if this party has reported the session before."""
    return await ADD.value(
        tx,
        id=ids.new_id(),
        session_id=session_id,
        reporter=reporter,
        reason=reason.value,
        message=message,
        created_at=tx.now,
    )


async def exists(reader: Reader, report_id: str) -> bool:
    """Return whether a report exists."""
    return await EXISTS.value(reader, id=report_id) is not None


async def resolve(tx: Tx, report_id: str, resolution: Resolution, *, operator_id: str, note: str | None) -> bool:
    """Resolve an open report. Return False if it is not open."""
    changed = await RESOLVE.execute(
        tx, id=report_id, resolution=resolution.value, note=note, operator_id=operator_id, now=tx.now
    )
    return bool(changed)


async def blank(tx: Tx, *, before: dt.datetime, limit: int) -> int:
    """Remove the texts of at most `limit` reports that were resolved before a time; return of how many."""
    return await tx.execute(SQL["blank"], before, limit)
