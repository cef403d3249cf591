"""Write the delivery trail: what happened to each event on each device (docs/fairness.md#delivery-trail).

A row is written after what it says has happened, so it is never false; one may be missing. Acknowledged and given up
deliveries are noted by the statements that delete them (store.sql).
"""

from collections.abc import Sequence

from core.deliveries.stages import MOST, TrailMark
from core.storage import sql_files
from core.storage.database import Database
from core.storage.transaction import Tx

SQL = sql_files.load(__file__)


async def add(db: Database | Tx, marks: Sequence[TrailMark], *, recipient_ids: Sequence[str] | None = None) -> int:
    """Add the marks of known events that are new, and return how many.

    `recipient_ids`: only those of events for these users.
    """
    added: int = await db.fetchval(
        SQL["add"],
        [mark.event_id for mark in marks],
        [mark.auth_session_id for mark in marks],
        [mark.stage for mark in marks],
        [mark.at for mark in marks],
        recipient_ids,
        MOST,
    )
    return added


async def forget(tx: Tx, recipient_ids: Sequence[str], *, limit: int) -> int:
    """Delete at most `limit` rows of recipients who are erased; return how many."""
    return await tx.execute(SQL["forget"], recipient_ids, limit)
