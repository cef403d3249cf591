"""Store chat messages and read markers, one round trip per batch, and sync the statuses of messages in bulk.

docs/architecture.md#flow-message shows the way of a message.
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from core.sessions.messages.rules import Draft, NotStored, ReadMarkers, StoreResult, Unshown
from core.storage import sql_files
from core.storage.database import Database
from core.storage.records import many
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)
NONE = ReadMarkers()
SYNC_AT_ONCE = 5_000  # messages of a session per statement: a tenth of what a statement has time for


def _plain(values: Iterable[str]) -> str:
    """Return an array literal of values that need no quotes: ids, numbers, names of types."""
    return "{" + ",".join(values) + "}"


def _texts(values: Iterable[str | None]) -> str:
    """Return an array literal of texts, with quotes and backslashes escaped by a backslash (PostgreSQL, 8.15.2)."""
    return _plain(
        "NULL" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in values
    )


async def commit(
    db: Database, drafts: list[Draft], marks: dict[str, ReadMarkers], *, anchor: dt.datetime, scale: float
) -> tuple[dt.datetime | None, list[StoreResult | NotStored]]:
    """Store drafts and read markers (session id -> ReadMarkers) in one transaction.

    Return (service time of the batch, results of the drafts in their order).
    """
    if len(drafts) == 1 and (not marks or [*marks] == [drafts[0].session_id]):
        draft = drafts[0]
        return await _commit_one(db, draft, marks.get(draft.session_id, NONE), anchor=anchor, scale=scale)
    touched = sorted({d.session_id for d in drafts} | marks.keys())
    slots = {session_id: str(number) for number, session_id in enumerate(touched, start=1)}
    row_marks = [marks.get(session_id, NONE) for session_id in touched]
    [row] = await db.fetch_once(
        SQL["commit"],
        _plain(touched),
        _plain([str(m.customer_delivered) for m in row_marks]),
        _plain([str(m.customer_read) for m in row_marks]),
        _plain([str(m.mitra_delivered) for m in row_marks]),
        _plain([str(m.mitra_read) for m in row_marks]),
        _plain([slots[d.session_id] for d in drafts]),
        _plain([d.id for d in drafts]),
        _plain([d.sender_id for d in drafts]),
        _plain([d.client_message_id for d in drafts]),
        _plain([d.type for d in drafts]),
        _texts([d.content for d in drafts]),
        _texts([d.metadata for d in drafts]),
        anchor,
        scale,
    )
    kept = iter(zip(row["kept_ids"] or (), row["kept_ats"] or (), strict=True))
    answers: list[StoreResult | NotStored] = []
    for draft, seq in zip(drafts, row["seqs"] or (), strict=True):
        kept_id, kept_at = next(kept) if seq is not None and seq < 0 else (None, None)
        answers.append(_result(draft, row["at"], seq, kept_id, kept_at))
    return row["at"], answers


async def _commit_one(
    db: Database, draft: Draft, marks: ReadMarkers, *, anchor: dt.datetime, scale: float
) -> tuple[dt.datetime | None, list[StoreResult | NotStored]]:
    """Store one draft and the read markers of its session. PostgreSQL does this for two thirds of a batch's cost."""
    [row] = await db.fetch_once(
        SQL["commit_one"],
        draft.session_id,
        marks.customer_delivered,
        marks.customer_read,
        marks.mitra_delivered,
        marks.mitra_read,
        draft.id,
        draft.sender_id,
        draft.client_message_id,
        draft.type,
        draft.content,
        draft.metadata,
        anchor,
        scale,
    )
    return row["at"], [_result(draft, *row)]


def _result(
    draft: Draft, at: dt.datetime, seq: int | None, kept_id: Any, kept_at: dt.datetime | None
) -> StoreResult | NotStored:
    """Return what the database answered about a draft; `kept_id` and `kept_at` are of the first time, if any."""
    if seq is None:
        return NotStored.NOT_A_PARTY
    if seq == 0:
        return NotStored.NOT_ACTIVE
    if kept_at is not None:
        return StoreResult(id=str(kept_id), seq=-seq, created_at=kept_at, repeated=True)
    return StoreResult(id=draft.id, seq=seq, created_at=at, repeated=False)


async def note_unshown(db: Database, unshown: Sequence[Unshown]) -> None:
    """Note devices, each once for a session, for the pushes that leave them out."""
    columns = ("session_id", "side", "device_id", "up_to")
    await db.fetch(SQL["note_unshown"], *([getattr(one, name) for one in unshown] for name in columns))


@attrs.frozen(kw_only=True)
class StatusSync:
    """The result of syncing a part of a session's messages. `goes_on`: another part follows.

    `final` is the seq up to which all messages have their final status once all parts are synced; None if a side's
    delivered marker has not passed the start of this part.
    """

    id: str
    final: int | None
    goes_on: bool


async def sync_statuses(reader: Reader, after: dict[str, int]) -> list[StatusSync]:
    """Sync the statuses of the next SYNC_AT_ONCE messages after `after` (session id -> seq). Safe to repeat."""
    return many(StatusSync, await reader.fetch(SQL["sync_statuses"], list(after), list(after.values()), SYNC_AT_ONCE))


async def sync_all_statuses(tx: Tx, session_ids: Sequence[str]) -> None:
    """Sync the statuses of all messages of sessions, in the transaction that completes the sessions."""
    if session_ids:
        await tx.execute(SQL["sync_statuses"], session_ids, [0] * len(session_ids), None)


async def blank(tx: Tx, session_id: str, *, after: int, up_to: int) -> None:
    """Blank the texts and metadata of the messages of a blanked session with a seq above `after`, up to `up_to`."""
    await tx.execute(SQL["blank"], session_id, after, up_to)
