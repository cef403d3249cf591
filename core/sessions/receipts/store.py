"""Read and sign the receipts of sessions, and read what they say was paid and given back.

The database makes their rows (piccolo_migrations/0005_guards.sql).
"""

import datetime as dt

import attrs
import msgspec

from core.sessions.receipts.rules import Receipt, SignedReceipt
from core.storage import sql_files
from core.storage.records import many, one
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)


@attrs.frozen(kw_only=True)
class Unsigned:
    """A session that was completed, and has no signed receipt yet."""

    session_id: str
    completed_at: dt.datetime


@attrs.frozen(kw_only=True)
class Claimed:
    """The locked row of a receipt that is not signed. The session's parties could talk until `talked_until`."""

    session_id: str
    talked_until: dt.datetime
    completed_at: dt.datetime


async def unsigned(reader: Reader, *, before: dt.datetime, after: Unsigned | None, limit: int) -> list[Unsigned]:
    """Return sessions completed before a time without a signed receipt, the oldest first; those that follow `after`."""
    rows = await reader.fetch(SQL["unsigned"], before, limit, after and after.completed_at, after and after.session_id)
    return many(Unsigned, rows)


async def claim(tx: Tx, session_id: str) -> Claimed | None:
    """Lock a session's receipt. Return None if it is signed, or if there is none."""
    return one(Claimed, await tx.fetchrow(SQL["claim"], session_id))


async def get(reader: Reader, session_id: str) -> tuple[dt.datetime | None, SignedReceipt | None]:
    """Return (when a session was completed, None if it has no receipt; the receipt if it is signed)."""
    row = await reader.fetchrow(SQL["get"], session_id)
    if row is None:
        return None, None
    if row["body"] is None:
        return row["completed_at"], None
    body = msgspec.json.decode(row["body"], type=Receipt)
    signed = SignedReceipt(receipt=body, key_id=row["key_id"], signature=row["signature"])
    return row["completed_at"], signed


async def sign(tx: Tx, session_id: str, *, body: str, key_id: str, signature: str) -> None:
    """Store the signed text of a receipt. The caller has claimed it."""
    await tx.execute(SQL["sign"], session_id, body, key_id, signature, tx.now)


@attrs.frozen(kw_only=True)
class PaidTime:
    """The paid time of a paired session. `credits` are (when the lost time began, milliseconds)."""

    paired_at: dt.datetime
    duration_minutes: int
    extended_minutes: int
    last_seq: int
    credits: list[tuple[dt.datetime, int]]


async def paid_time(reader: Reader, session_id: str) -> PaidTime | None:
    """Return the paid time of a session."""
    return one(PaidTime, await reader.fetchrow(SQL["paid_time"], session_id))
