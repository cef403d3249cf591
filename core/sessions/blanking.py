"""Blank the goodbyes of sessions, and store how far the blanking of their messages is."""

import datetime as dt
from collections.abc import Sequence

import attrs

from core.storage import sql_files
from core.storage.records import many
from core.storage.transaction import Tx

SQL = sql_files.load(__file__)


@attrs.frozen(kw_only=True)
class Unfinished:
    """A blanked session whose messages after `blanked_seq`, up to `last_seq`, still have texts."""

    id: str
    blanked_seq: int
    last_seq: int


async def begin(tx: Tx, session_ids: Sequence[str]) -> list[str]:
    """Mark completed sessions as blanked and blank their goodbyes; return the ids of those that were not yet."""
    begun = [row["id"] for row in await tx.fetch(SQL["begin"], session_ids, tx.now)]
    await tx.execute(SQL["blank_goodbyes"], begun)
    return begun


async def claim_due(tx: Tx, *, before: dt.datetime, limit: int) -> list[str]:
    """Lock the sessions with texts that ended before a time, the oldest first; skip locked ones. Return their ids."""
    return [row["id"] for row in await tx.fetch(SQL["claim_due"], before, limit)]


async def claim_unfinished(tx: Tx, session_ids: Sequence[str] | None, *, limit: int) -> list[Unfinished]:
    """Lock blanked sessions of which messages still have texts.

    Without ids, any sessions that are not locked; with ids, those of them, after other transactions have released them.
    """
    if session_ids is None:
        return many(Unfinished, await tx.fetch(SQL["claim_unfinished"], limit))
    return many(Unfinished, await tx.fetch(SQL["lock_unfinished"], limit, session_ids))


async def save(tx: Tx, session_id: str, *, blanked_seq: int | None) -> None:
    """Store up to which seq the messages of a session are blanked; None if all are."""
    await tx.execute(SQL["save"], session_id, blanked_seq)
