"""Read what a session was paid for and what it got back, for its receipt."""

import datetime as dt

import attrs

from core.storage import sql_files
from core.storage.records import one
from core.storage.transaction import Reader

SQL = sql_files.load(__file__)


@attrs.frozen(kw_only=True)
class PaidTime:
    """The paid time of a paired session. `credits` are (when the lost time began, milliseconds)."""

    paired_at: dt.datetime
    duration_minutes: int
    extended_minutes: int
    last_seq: int
    credits: list[tuple[dt.datetime, int]]


async def of(reader: Reader, session_id: str) -> PaidTime | None:
    """Return the paid time of a session."""
    return one(PaidTime, await reader.fetchrow(SQL["of"], session_id))
