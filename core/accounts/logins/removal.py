"""Delete auth sessions and requests for codes whose retention has ended."""

import datetime as dt
from collections.abc import Sequence

from core.storage import sql_files
from core.storage.transaction import Tx

SQL = sql_files.load(__file__)


async def remove_codes(tx: Tx, *, before: dt.datetime, end_id: str, limit: int) -> int:
    """Delete requests for codes from before a time, whose ids are below the bound `end_id`; return how many."""
    return await tx.execute(SQL["remove_codes"], before, end_id, limit)


async def remove_marks(tx: Tx, *, before: dt.datetime, limit: int) -> int:
    """Delete requests for codes of erased users from before a time; return how many."""
    return await tx.execute(SQL["remove_marks"], before, limit)


async def remove_ended(tx: Tx, *, before: dt.datetime, limit: int) -> int:
    """Delete auth sessions that were revoked or expired before a time, those that ended first; return how many."""
    return await tx.execute(SQL["remove_ended"], before, limit)


async def lock_unused(tx: Tx, user_ids: Sequence[str], *, since: dt.datetime) -> list[str]:
    """Lock the auth sessions of users that were not used since a time; skip locked ones. Return their ids."""
    return [row["id"] for row in await tx.fetch(SQL["lock_unused"], user_ids, since)]


async def remove(tx: Tx, user_ids: Sequence[str]) -> None:
    """Delete all auth sessions of users."""
    await tx.execute(SQL["remove"], user_ids)
