"""Delete anonymous customers who were never more than an id (docs/operating.md#retention)."""

import datetime as dt
from collections.abc import Sequence

from core.base.id_ranges import EPOCH
from core.storage import sql_files
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)
Place = tuple[dt.datetime, str]  # when a customer was made, and the id
FIRST: Place = (EPOCH, "00000000-0000-0000-0000-000000000000")


async def anonymous(reader: Reader, *, before: dt.datetime, after: Place = FIRST, limit: int) -> list[Place]:
    """Return anonymous customers from before a time who have joined no account, the oldest first. Most have paid."""
    rows = await reader.fetch(SQL["anonymous"], *after, before, limit)
    return [(row["created_at"], row["id"]) for row in rows]


async def lock_unused(tx: Tx, customer_ids: Sequence[str], *, auth_session_ids: Sequence[str]) -> list[str]:
    """Lock customers who have no rows but the given auth sessions; skip locked ones. Return their ids.

    A transaction may have stored a payment just before the lock, so check again.
    """
    return [row["id"] for row in await tx.fetch(SQL["lock_unused"], customer_ids, auth_session_ids)]


async def remove(tx: Tx, customer_ids: Sequence[str]) -> int:
    """Delete customers; return how many."""
    return await tx.execute(SQL["remove"], customer_ids)
