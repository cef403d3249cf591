"""Write reports about sessions, and remove their texts."""

import datetime as dt

from core.base import ids
from core.sessions.reports.rules import Reason, Resolution
from core.sessions.reports.tables import SessionReport as Reports
from core.storage import sql_files
from core.storage.statements import p, statement
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)
EXISTS = statement(Reports.select(Reports.id).where(Reports.id == p.id))


async def add(tx: Tx, session_id: str, *, reporter: str, reason: Reason, message: str | None) -> str | None:
    """Store a report and return its id; None if this party has reported the session before.

    It has no message if the session's customer is erased.
    """
    args = (ids.new_id(), session_id, reporter, reason.value, message, tx.now)
    return await tx.fetchval(SQL["add"], *args)


async def exists(reader: Reader, report_id: str) -> bool:
    """Return whether a report exists."""
    return await EXISTS.value(reader, id=report_id) is not None


async def resolve(tx: Tx, report_id: str, resolution: Resolution, *, operator_id: str, note: str | None) -> bool:
    """Resolve an open report, without the note if the customer is erased. Return False if it is not open."""
    return bool(await tx.execute(SQL["resolve"], report_id, resolution.value, note, operator_id, tx.now))


async def blank(tx: Tx, *, before: dt.datetime, limit: int) -> int:
    """Remove the texts of at most `limit` reports that were resolved before a time; return of how many."""
    return await tx.execute(SQL["blank"], before, limit)
