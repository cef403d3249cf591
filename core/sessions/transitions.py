"""Changes of a session's status. The flows that make them have the effects.

Each transition is one statement that names the expected state, so two transactions can't both make it. Functions that
return a bool return False if the session was in another state.
"""

import datetime as dt
import itertools

from core.sessions.states import SessionStatus
from core.sessions.store import COLUMNS, DELIVERED, GRACE_OVER, Session
from core.storage.database import Tx
from core.storage.records import many


async def create(tx: Tx, session: Session, *, is_first_session_discount: bool) -> None:
    """Insert a searching session."""
    await tx.execute(
        """INSERT INTO chat_sessions (id, customer_id, payment_request_id, mode, status, created_at, duration_minutes,
             price, is_first_session_discount, topics, targeted_mitra_id, round_number, round_ends_at, search_ends_at)
           VALUES ($1, $2, $3, $4, 'searching', $5, $6, $7, $8, $9, $10, $11, $12, $13)""",
        session.id, session.customer_id, session.payment_request_id, session.mode, session.created_at,
        session.duration_minutes, session.price, is_first_session_discount, session.topics,
        session.targeted_mitra_id, session.round_number, session.round_ends_at, session.search_ends_at,
    )  # fmt: skip


async def create_completed(
    tx: Tx, session_id: str, *, customer_id: str, mitra_id: str, began_at: dt.datetime, ended_at: dt.datetime, topics: list[str] | None
) -> None:  # fmt: skip
    """Insert a past session, for development only."""
    await tx.execute(
        """INSERT INTO chat_sessions (id, customer_id, mitra_id, status, created_at, paired_at, expires_at, ended_at, ended_by,
             duration_minutes, topics)
           VALUES ($1, $2, $3, 'completed', $4, $4, $5, $5, 'timer', $6, $7)""",
        session_id, customer_id, mitra_id, began_at, ended_at, int((ended_at - began_at).total_seconds() // 60), topics,
    )  # fmt: skip


async def pair(tx: Tx, session_id: str, *, mitra_id: str, expires_at: dt.datetime, warn_at: dt.datetime | None) -> bool:
    """Move a session from `searching` to `active`, with the mitra who accepted first."""
    return bool(
        await tx.execute(
            """UPDATE chat_sessions SET status = 'active', mitra_id = $2, paired_at = $3, expires_at = $4, warn_at = $5
               WHERE id = $1 AND status = 'searching'""",
            session_id,
            mitra_id,
            tx.now,
            expires_at,
            warn_at,
        )
    )


async def end_search(tx: Tx, session_id: str, status: SessionStatus) -> bool:
    """Move a session from `searching` to `failed` or `cancelled`."""
    return bool(
        await tx.execute(
            "UPDATE chat_sessions SET status = $2, ended_at = $3 WHERE id = $1 AND status = 'searching'",
            session_id,
            status.value,
            tx.now,
        )
    )


async def expire_due(tx: Tx, *, grace: dt.timedelta, limit: int) -> list[Session]:
    """Move sessions whose paid time is over from `active` to `expired`. Locked ones are left to the next look."""
    return many(
        Session,
        await tx.fetch(
            f"""UPDATE chat_sessions SET status = 'expired', grace_ends_at = expires_at + $2, warn_at = NULL
                WHERE status = 'active' AND expires_at <= $1 AND id = ANY (ARRAY(
                  SELECT id FROM chat_sessions WHERE status = 'active' AND expires_at <= $1
                  ORDER BY expires_at LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED))
                RETURNING {COLUMNS}""",
            tx.now, grace, limit,
        ),
    )  # fmt: skip


async def prolong(
    tx: Tx, session_id: str, *, before: SessionStatus, expires_at: dt.datetime, warn_at: dt.datetime | None, minutes: int
) -> bool:  # fmt: skip
    """Give a session in `active` or `expired` a new end; it is `active` afterwards. `minutes` is what it gained."""
    return bool(
        await tx.execute(
            """UPDATE chat_sessions SET status = 'active', expires_at = $3, warn_at = $4, grace_ends_at = NULL,
                 extended_minutes = extended_minutes + $5 WHERE id = $1 AND status = $2""",
            session_id,
            before.value,
            expires_at,
            warn_at,
            minutes,
        )
    )


async def begin_closing(tx: Tx, session_id: str, *, before: SessionStatus, ended_by: str, grace: dt.timedelta) -> bool:
    """Move a session from `active` or `expired` to `closing`; its grace period starts now."""
    return bool(
        await tx.execute(
            """UPDATE chat_sessions SET status = 'closing', ended_by = $3, ended_at = $4, warn_at = NULL,
                 grace_ends_at = $4::timestamptz + $5 WHERE id = $1 AND status = $2""",
            session_id,
            before.value,
            ended_by,
            tx.now,
            grace,
        )
    )


async def complete(tx: Tx, session_id: str) -> bool:
    """Move a session from `closing` to `completed`."""
    return bool(
        await tx.execute(
            "UPDATE chat_sessions SET status = 'completed', ended_at = $2, grace_ends_at = NULL WHERE id = $1 AND status = 'closing'",
            session_id,
            tx.now,
        )
    )


async def complete_due(tx: Tx, *, limit: int, messages: int, very_long: str | None = None) -> list[Session]:
    """Complete at most `limit` sessions whose grace period is over, with at most `messages` delivered messages in all.

    A session with more messages is skipped, unless its id is `very_long`; then it is completed alone.
    Uses two statements, so that the second sees extensions that were requested while the first waited for locks.
    """
    rows = await tx.fetch(
        f"""SELECT s.id, {DELIVERED} AS delivered FROM chat_sessions s
            WHERE {GRACE_OVER} AND CASE WHEN $4::uuid IS NULL THEN {DELIVERED} <= $3 ELSE s.id = $4 END
            ORDER BY s.grace_ends_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED""",
        tx.now, limit, messages, very_long,
    )  # fmt: skip
    if not rows:
        return []
    sums = itertools.accumulate(row["delivered"] for row in rows)
    taken = [
        row["id"]
        for number, (row, total) in enumerate(zip(rows, sums, strict=True))
        if number == 0 or total <= messages
    ]
    return many(
        Session,
        await tx.fetch(
            f"""UPDATE chat_sessions s SET status = 'completed', ended_at = $1, grace_ends_at = NULL,
                  ended_by = coalesce(ended_by, 'timer')
                WHERE s.id = ANY($2) AND {GRACE_OVER}
                RETURNING {COLUMNS}""",
            tx.now, taken,
        ),
    )  # fmt: skip
