"""Reads of chat sessions, writes that leave their status as it is, and goodbyes."""

import datetime as dt

import attrs

from core.base import ids
from core.base.field_types import CustomerId, MitraId, Mode, PaymentRequestId, SessionId
from core.sessions.rules import EndedBy
from core.sessions.sensitivity import Sensitivity
from core.sessions.states import SessionStatus
from core.storage.database import Tx
from core.storage.fragments import NEWEST_FIRST
from core.storage.reads import Reader
from core.storage.records import many, one

COLUMNS = """id, customer_id, mitra_id, payment_request_id, mode, status, created_at, paired_at, ended_at, ended_by,
  duration_minutes, price, expires_at, topics, topic_sensitivity, targeted_mitra_id, round_number, round_ends_at,
  search_ends_at, warn_at, grace_ends_at, last_seq"""


@attrs.frozen(kw_only=True)
class Session:
    """The columns of chat_sessions that rules need. `price` is in Rupiah."""

    id: SessionId
    customer_id: CustomerId
    mitra_id: MitraId | None
    payment_request_id: PaymentRequestId | None
    mode: Mode
    status: SessionStatus = attrs.field(converter=SessionStatus)
    created_at: dt.datetime
    paired_at: dt.datetime | None
    ended_at: dt.datetime | None
    ended_by: EndedBy | None
    duration_minutes: int | None
    price: int
    expires_at: dt.datetime | None
    topics: list[str] | None
    topic_sensitivity: Sensitivity = attrs.field(converter=Sensitivity)
    targeted_mitra_id: MitraId | None
    round_number: int
    round_ends_at: dt.datetime | None
    search_ends_at: dt.datetime | None
    warn_at: dt.datetime | None
    grace_ends_at: dt.datetime | None
    last_seq: int


async def get(reader: Reader, session_id: str) -> Session | None:
    """Return a session; None for an unknown id."""
    return one(Session, await reader.fetchrow(f"SELECT {COLUMNS} FROM chat_sessions WHERE id = $1", session_id))


async def lock(tx: Tx, session_id: str) -> Session | None:
    """Lock a session and return it; None for an unknown id."""
    return one(
        Session,
        await tx.fetchrow(f"SELECT {COLUMNS} FROM chat_sessions WHERE id = $1 FOR NO KEY UPDATE", session_id),
    )


async def held_by(reader: Reader, mitra_id: str) -> list[str]:
    """Return the ids of the sessions that count against a mitra's capacity."""
    sql = "SELECT id FROM chat_sessions WHERE mitra_id = $1 AND status IN ('active', 'expired')"
    return [str(row["id"]) for row in await reader.fetch(sql, mitra_id)]


async def lock_if_free(tx: Tx, session_id: str) -> Session | None:
    """Lock a session and return it; None if another transaction has it locked. Sweeps use this and look again later."""
    return one(
        Session,
        await tx.fetchrow(
            f"SELECT {COLUMNS} FROM chat_sessions WHERE id = $1 FOR NO KEY UPDATE SKIP LOCKED", session_id
        ),
    )


async def of_payment(reader: Reader, payment_request_id: str) -> Session | None:
    """Return the newest session of a payment request, or None."""
    return one(
        Session,
        await reader.fetchrow(
            f"""SELECT {COLUMNS} FROM chat_sessions WHERE payment_request_id = $1
                ORDER BY {NEWEST_FIRST} LIMIT 1""",
            payment_request_id,
        ),
    )


async def any_between(reader: Reader, *, customer_ids: list[str], mitra_id: str) -> bool:
    """Return whether one of these customers has ever had a session with a mitra."""
    found = await reader.fetchval(
        "SELECT 1 FROM chat_sessions WHERE customer_id = ANY($1) AND mitra_id = $2 LIMIT 1", customer_ids, mitra_id
    )
    return bool(found)


async def plan_repeat(tx: Tx, session_id: str, *, at: dt.datetime) -> None:
    """Plan to send the customer the number of asked mitras at `at`, unless that is planned already."""
    await tx.execute(
        "UPDATE chat_sessions SET asked_repeat_at = $2 WHERE id = $1 AND status = 'searching' AND asked_repeat_at IS NULL",
        session_id, at,
    )  # fmt: skip


async def claim_repeats(tx: Tx, *, limit: int) -> list[Session]:
    """Claim the searches whose number of asked mitras is due to be sent to the customer. Each is claimed once."""
    return many(
        Session,
        await tx.fetch(
            f"""UPDATE chat_sessions SET asked_repeat_at = NULL WHERE status = 'searching' AND id = ANY (ARRAY(
                  SELECT id FROM chat_sessions WHERE status = 'searching' AND asked_repeat_at <= $1
                  ORDER BY asked_repeat_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED))
                RETURNING {COLUMNS}""",
            tx.now, limit,
        ),
    )  # fmt: skip


async def lock_quiet_rounds(tx: Tx, *, now: dt.datetime, limit: int) -> dict[str, dt.datetime]:
    """Lock running blasts whose round is over and that have no open invitation; return session id -> end of its search.

    Sessions that another transaction has locked are left to the next look. Another transaction may have made an
    invitation just before the lock, so check again.
    """
    rows = await tx.fetch(
        """SELECT s.id::text, s.search_ends_at FROM chat_sessions s
           WHERE s.status = 'searching' AND s.round_ends_at <= $1 AND s.search_ends_at > $1 AND s.targeted_mitra_id IS NULL
             AND NOT EXISTS (SELECT 1 FROM chat_request_notifications n WHERE n.session_id = s.id AND n.response IS NULL)
           ORDER BY s.round_ends_at LIMIT $2 FOR NO KEY UPDATE OF s SKIP LOCKED""",
        now, limit,
    )  # fmt: skip
    return {row["id"]: row["search_ends_at"] for row in rows}


async def begin_rounds(tx: Tx, ends: dict[str, dt.datetime]) -> None:
    """Move searching sessions to their next rounds.

    `ends` is session id -> end of its round. The caller has locked them.
    """
    await tx.execute(
        """UPDATE chat_sessions s SET round_number = s.round_number + 1, round_ends_at = r.ends_at
           FROM unnest($1::uuid[], $2::timestamptz[]) AS r(id, ends_at) WHERE s.id = r.id AND s.status = 'searching'""",
        list(ends), list(ends.values()),
    )  # fmt: skip


async def claim_warnings(tx: Tx, *, limit: int) -> list[Session]:
    """Claim the due warnings and return their sessions, without those whose paid time is over by now."""
    rows = many(
        Session,
        await tx.fetch(
            f"""UPDATE chat_sessions SET warn_at = NULL WHERE warn_at <= $1 AND id = ANY (ARRAY(
                  SELECT id FROM chat_sessions WHERE warn_at <= $1
                  ORDER BY warn_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED))
                RETURNING {COLUMNS}""",
            tx.now, limit,
        ),
    )  # fmt: skip
    return [row for row in rows if row.status is SessionStatus.ACTIVE and row.expires_at and row.expires_at > tx.now]


# A pending extension keeps an `expired` session from being completed.
UNHELD = """NOT (s.status = 'expired' AND EXISTS (SELECT 1 FROM session_extensions e WHERE e.session_id = s.id AND e.status = 'pending'))"""
GRACE_OVER = f"s.status IN ('expired', 'closing') AND s.grace_ends_at <= $1 AND {UNHELD}"
DELIVERED = (
    "greatest(s.customer_delivered_seq, s.mitra_delivered_seq)"  # at most this many message statuses must be synced
)


async def delivered_count(reader: Reader, session_id: str) -> int:
    """Return the number of delivered messages of a `closing` session in which a side has said goodbye; 0 for all
    others."""
    found = await reader.fetchval(
        f"""SELECT {DELIVERED} FROM chat_sessions s WHERE s.id = $1 AND s.status = 'closing'
              AND EXISTS (SELECT 1 FROM session_closures c WHERE c.session_id = s.id)""",
        session_id,
    )
    return found or 0


async def due_very_long(reader: Reader, *, now: dt.datetime, over: int) -> dict[str, int]:
    """Return session id -> its delivered messages, for sessions whose grace period is over and that have more than
    `over`."""
    return dict(
        await reader.fetch(
            f"""SELECT s.id::text, {DELIVERED} FROM chat_sessions s WHERE {GRACE_OVER} AND {DELIVERED} > $2
                ORDER BY s.grace_ends_at LIMIT 100""",
            now, over,
        )
    )  # fmt: skip


async def set_sensitivity(tx: Tx, session_id: str, *, before: str, after: str, mitra_id: str) -> None:
    """Set a session's topic sensitivity and add the log row."""
    await tx.execute("UPDATE chat_sessions SET topic_sensitivity = $2 WHERE id = $1", session_id, after)
    await tx.execute(
        """INSERT INTO session_sensitivity_log (id, session_id, changed_by_mitra_id, from_value, to_value, created_at)
           VALUES ($1, $2, $3, $4, $5, $6)""",
        ids.new_id(), session_id, mitra_id, before, after, tx.now,
    )  # fmt: skip


async def begin_round(tx: Tx, session_id: str, *, round_number: int, round_ends_at: dt.datetime) -> None:
    """Move a searching session to this round. From its second round on, a search is a blast."""
    await tx.execute(
        """UPDATE chat_sessions SET targeted_mitra_id = NULL, round_number = $2, round_ends_at = $3
           WHERE id = $1 AND status = 'searching'""",
        session_id, round_number, round_ends_at,
    )  # fmt: skip


async def add_closure(tx: Tx, session_id: str, *, user_type: str, user_id: str, message: str) -> int:
    """Store a goodbye and return how many the session has now. Return 0 if this side has one already."""
    added = await tx.execute(
        """INSERT INTO session_closures (id, session_id, user_type, user_id, message, created_at)
           VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (session_id, user_type) DO NOTHING""",
        ids.new_id(), session_id, user_type, user_id, message, tx.now,
    )  # fmt: skip
    if not added:
        return 0
    return await tx.fetchval("SELECT count(*)::int FROM session_closures WHERE session_id = $1", session_id)
