"""Stores chat messages and marks, a batch in one round trip; fills the columns of single messages in bulk."""

import datetime as dt
from collections.abc import Iterable
from typing import Any

import attrs

from core.messages.rules import Draft, Mark, Placed
from core.storage.database import Tx
from core.storage.reads import Reader
from core.storage.records import many

# The arrays travel as text, which PostgreSQL reads faster than Python writes its binary form.
COMMIT = """SELECT * FROM chat_commit($1::text::uuid[], $2::text::int[], $3::text::int[], $4::text::int[], $5::text::int[],
  $6::text::int[], $7::text::uuid[], $8::text::uuid[], $9::text::uuid[], $10::text::text[], $11::text::text[], $12::text::text[],
  $13, $14)"""
FILL = "SELECT id::text, final, goes_on FROM chat_fill($1, $2, $3)"  # brings single messages up to their sessions' marks; safe to repeat
FILL_MOST = 5_000  # of a session in a statement: a tenth of what one has time for


def _plain(values: Iterable[str]) -> str:
    """Write an array of what needs no quotes: ids, numbers, names of types."""
    return "{" + ",".join(values) + "}"


def _texts(values: Iterable[str | None]) -> str:
    """Write an array of texts (PostgreSQL, 8.15.2: in quotes a backslash stands before each quote and backslash)."""
    return _plain(
        "NULL" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in values
    )


async def commit(
    connection: Any,
    drafts: list[Draft],
    marks: dict[str, Mark],
    *,
    anchor: dt.datetime,
    scale: float,
    timeout: float,
) -> tuple[dt.datetime | None, list[Placed | bool]]:
    """Store drafts and marks in one transaction.

    Returns the service time of the batch and an answer for each draft, in order: Placed, True when the session was not
    active, False for a stranger.
    """
    touched = sorted({d.session_id for d in drafts} | marks.keys())
    slots = {session_id: str(number) for number, session_id in enumerate(touched, start=1)}
    none = Mark()
    row_marks = [marks.get(session_id, none) for session_id in touched]
    row = await connection.fetchrow(
        COMMIT,
        _plain(touched),
        _plain([str(m.customer_delivered) for m in row_marks]), _plain([str(m.customer_read) for m in row_marks]),
        _plain([str(m.mitra_delivered) for m in row_marks]), _plain([str(m.mitra_read) for m in row_marks]),
        _plain([slots[d.session_id] for d in drafts]), _plain([d.id for d in drafts]),
        _plain([d.sender_id for d in drafts]), _plain([d.client_message_id for d in drafts]),
        _plain([d.type for d in drafts]), _texts([d.content for d in drafts]), _texts([d.metadata for d in drafts]),
        anchor, scale, timeout=timeout,
    )  # fmt: skip
    kept = iter(zip(row["kept_ids"] or (), row["kept_ats"] or (), strict=True))
    answers: list[Placed | bool] = []
    for draft, seq in zip(drafts, row["seqs"] or (), strict=True):
        if seq is None or seq == 0:
            answers.append(seq == 0)
        elif seq < 0:
            kept_id, kept_at = next(kept)
            answers.append(Placed(id=str(kept_id), seq=-seq, created_at=kept_at, repeated=True))
        else:
            answers.append(Placed(id=draft.id, seq=seq, created_at=row["at"], repeated=False))
    return row["at"], answers


@attrs.frozen(kw_only=True)
class Filled:
    """A part of a session's messages is up to its marks; `goes_on`: there is a part behind it.

    `final`: up to where nothing is left to be filled in, once all parts are; None where one side has not gone on.
    """

    id: str
    final: int | None
    goes_on: bool


async def fill(reader: Reader, after: dict[str, int]) -> list[Filled]:
    """Bring the next FILL_MOST messages behind `after` (session -> seq) up to their session's marks. Safe to repeat."""
    return many(Filled, await reader.fetch(FILL, list(after), list(after.values()), FILL_MOST))


async def fill_in(tx: Tx, session_ids: list[str]) -> None:
    """Bring all messages of sessions up to their marks, with the transaction that completes them."""
    if session_ids:
        await tx.execute(FILL, session_ids, [0] * len(session_ids), None)
