"""Credits of session time: paid time that was lost and is given back (docs/fairness.md#fair-clock)."""

import datetime as dt
from collections.abc import Sequence

import attrs

from core.base import ids
from core.sessions import rules
from core.sessions.rules import CreditReason
from core.storage import sql_files
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)


@attrs.frozen(kw_only=True)
class Credit:
    """The time that one session gets back."""

    session_id: str
    milliseconds: int


async def add(
    tx: Tx,
    session_ids: Sequence[str],
    *,
    reason: CreditReason,
    began_at: dt.datetime,
    ended_at: dt.datetime,
    most: dt.timedelta | None,
    outage_id: str | None,
) -> list[Credit]:
    """Lock sessions, store what each lost from `began_at` to `ended_at`, and move its end; return the credits.

    A session gets at most `most`, from when it began to lose time. None: there is no bound.

    A session whose paid time was over at `began_at`, or that has this credit already, gets none.
    """
    await tx.fetch(SQL["lock"], session_ids)
    owed = await tx.fetch(SQL["owed"], session_ids, began_at, ended_at, most)
    rows = await tx.fetch(
        SQL["add"],
        [ids.new_id() for _ in owed],
        [row["id"] for row in owed],
        reason,
        outage_id,
        [row["began_at"] for row in owed],
        [row["ended_at"] for row in owed],
        [row["milliseconds"] for row in owed],
        tx.now,
    )
    added = [Credit(session_id=row["session_id"], milliseconds=row["milliseconds"]) for row in rows]
    if added:
        await tx.execute(
            SQL["move"],
            [credit.session_id for credit in added],
            [credit.milliseconds for credit in added],
            tx.now,
            rules.GRACE,
            rules.WARNING,
        )
    return added


async def losing(reader: Reader, outage_id: str, *, began_at: dt.datetime, ended_at: dt.datetime) -> list[str]:
    """Return the ids of the sessions that lost paid time in an outage and have no credit for it, in order."""
    return [row["id"] for row in await reader.fetch(SQL["losing"], outage_id, began_at, ended_at)]
