"""Stores chat messages and marks, a batch in one round trip; fills the columns of single messages in bulk."""

import datetime as dt
from typing import Any

from core.messages.rules import Draft, Mark, Placed
from core.storage.database import Tx

COMMIT = "SELECT * FROM chat_commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
# Brings status, delivered_at and read_at of single messages up to the session's marks. Safe to repeat.
FILL = """UPDATE chat_messages m SET
    status = CASE WHEN m.seq <= f.read_seq THEN 'read' ELSE 'delivered' END,
    delivered_at = coalesce(m.delivered_at, f.delivered_at),
    read_at = CASE WHEN m.seq <= f.read_seq THEN coalesce(m.read_at, f.read_at) END
  FROM (
    SELECT id, 'mitra' AS sender, customer_delivered_seq AS delivered_seq, customer_read_seq AS read_seq,
      customer_delivered_at AS delivered_at, customer_read_at AS read_at FROM chat_sessions WHERE id = ANY($1)
    UNION ALL
    SELECT id, 'customer', mitra_delivered_seq, mitra_read_seq, mitra_delivered_at, mitra_read_at
      FROM chat_sessions WHERE id = ANY($1)
  ) f
  WHERE m.session_id = f.id AND m.sender_type = f.sender AND m.seq <= f.delivered_seq
    AND m.seq > ($2::int[])[array_position($1::uuid[], f.id)]
    AND (m.delivered_at IS NULL OR m.read_at IS NULL AND m.seq <= f.read_seq)"""


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
    touched = dict.fromkeys([d.session_id for d in drafts]) | dict.fromkeys(marks)
    none = Mark()
    row_marks = [marks.get(session_id, none) for session_id in touched]
    row = await connection.fetchrow(
        COMMIT,
        [d.id for d in drafts], [d.session_id for d in drafts], [d.sender_id for d in drafts],
        [d.client_message_id for d in drafts], [d.type for d in drafts], [d.content for d in drafts],
        [d.metadata for d in drafts], list(touched),
        [m.customer_delivered for m in row_marks], [m.customer_read for m in row_marks],
        [m.mitra_delivered for m in row_marks], [m.mitra_read for m in row_marks],
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


async def fill(runner: Any, after: dict[str, int]) -> None:
    """Bring messages behind `after` (session -> seq that is final) up to their session's marks."""
    await runner.execute(FILL, list(after), list(after.values()))


async def fill_in(tx: Tx, session_ids: list[str]) -> None:
    """Bring all messages of sessions up to their marks, with the transaction that completes them."""
    if session_ids:
        await tx.execute(FILL, session_ids, [0] * len(session_ids))
