"""Reads of chat sessions, writes that leave their status as it is, and goodbyes."""

import datetime as dt
from collections.abc import Collection, Sequence

import attrs

from core.base import ids
from core.base.field_types import CustomerId, MitraId, Mode, PaymentRequestId, SessionId
from core.sessions.rules import EndedBy
from core.sessions.sensitivity import Sensitivity
from core.sessions.states import UNENDED, SessionStatus
from core.sessions.tables import ChatSession as Sessions
from core.sessions.tables import SessionClosure as Closures
from core.sessions.tables import SessionSensitivityLog as SensitivityLogs
from core.storage import sql_files
from core.storage.fragments import NEWEST_FIRST
from core.storage.records import many, one
from core.storage.statements import claim, columns_of, insert, names_of, p, statement
from core.storage.transaction import Reader, Tx


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
    wave_number: int
    wave_ends_at: dt.datetime | None
    warn_at: dt.datetime | None
    grace_ends_at: dt.datetime | None
    last_seq: int
    resumed_at: dt.datetime | None = None

    @property
    def began_at(self) -> dt.datetime | None:
        """Return since when the paid time runs: the pairing, or the extension that resumed it."""
        return self.resumed_at or self.paired_at


@attrs.frozen(kw_only=True)
class RunningTime:
    """When the paid time of an active or expired session runs."""

    id: str
    began_at: dt.datetime
    expires_at: dt.datetime


AT_ONCE = 500  # rows that one claim takes
SQL = sql_files.load(__file__)
RETURNING = f"RETURNING {names_of(Session)}"
COLUMNS = columns_of(Sessions, Session)
GET = statement(Sessions.select(*COLUMNS).where(Sessions.id == p.id), Session)
LOCK = statement(Sessions.select(*COLUMNS).where(Sessions.id == p.id).lock_rows("NO KEY UPDATE"), Session)
LOCK_IF_FREE = statement(
    Sessions.select(*COLUMNS).where(Sessions.id == p.id).lock_rows("NO KEY UPDATE", skip_locked=True), Session
)
LOCK_FREE = f"""SELECT {names_of(Session)} FROM chat_sessions
  WHERE id = ANY($1::uuid[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED"""
UNENDED_OF_MITRA = statement(
    Sessions.select(Sessions.id).where(Sessions.mitra_id == p.mitra_id, Sessions.status.is_in(sorted(UNENDED)))
)
OF_PAYMENT = f"""SELECT {names_of(Session)}
FROM chat_sessions
WHERE payment_request_id = $1
ORDER BY {NEWEST_FIRST}
LIMIT 1"""
SEARCHING = Sessions.status == SessionStatus.SEARCHING
PLAN_REPEAT = statement(
    Sessions.update(asked_repeat_at=p.at).where(Sessions.id == p.id, SEARCHING, Sessions.asked_repeat_at.is_null())
)
BEGIN_ROUND = statement(
    Sessions.update(
        targeted_mitra_id=None, round_number=p.round_number, round_ends_at=p.round_ends_at, wave_ends_at=None
    ).where(Sessions.id == p.id, SEARCHING)
)
CLAIM_REPEATS = statement(
    claim(Sessions.asked_repeat_at, SEARCHING, limit=AT_ONCE).returning(*COLUMNS),
    Session,
)
CLAIM_WARNINGS = statement(claim(Sessions.warn_at, limit=AT_ONCE).returning(*COLUMNS), Session)
SET_WAVE = statement(
    Sessions.update(wave_number=p.wave_number, wave_ends_at=p.wave_ends_at).where(Sessions.id == p.id, SEARCHING)
)
KEEP_TRACEPARENT = statement(Sessions.update(traceparent=p.traceparent).where(Sessions.id == p.id))
TRACEPARENT = statement(Sessions.select(Sessions.traceparent).where(Sessions.id == p.id))
SET_SENSITIVITY = statement(Sessions.update(topic_sensitivity=p.after).where(Sessions.id == p.id))
LOG_SENSITIVITY = statement(insert(SensitivityLogs, "id session_id changed_by_mitra_id from_value to_value created_at"))
ADD_CLOSURE = statement(
    insert(Closures, "id session_id user_type user_id message created_at").on_conflict(
        (Closures.session_id, Closures.user_type), "DO NOTHING"
    )
)


async def get(reader: Reader, session_id: str) -> Session | None:
    """Return a session; None for an unknown id."""
    return await GET.first(reader, id=session_id)


async def lock(tx: Tx, session_id: str) -> Session | None:
    """Lock a session and return it; None for an unknown id."""
    return await LOCK.first(tx, id=session_id)


async def unended_of_mitra(reader: Reader, mitra_id: str) -> list[str]:
    """Return the ids of a mitra's sessions that have not ended."""
    return [one["id"] for one in await UNENDED_OF_MITRA.all(reader, mitra_id=mitra_id)]


async def held_after(reader: Reader, session_ids: Sequence[str], after: dt.datetime) -> list[RunningTime]:
    """Return those of these sessions that are active or expired and whose paid time ends after a moment."""
    return many(RunningTime, await reader.fetch(SQL["held_after"], session_ids, after))


async def lock_if_free(tx: Tx, session_id: str) -> Session | None:
    """Lock a session and return it; None if another transaction has it locked. Sweeps use this and look again later."""
    return await LOCK_IF_FREE.first(tx, id=session_id)


async def lock_free(tx: Tx, session_ids: Collection[str]) -> list[Session]:
    """Lock those of these sessions that no other transaction has locked; return them in the order of their ids."""
    return many(Session, await tx.fetch(LOCK_FREE, list(session_ids)))


async def of_payment(reader: Reader, payment_request_id: str) -> Session | None:
    """Return the newest session of a payment request, or None."""
    return one(Session, await reader.fetchrow(OF_PAYMENT, payment_request_id))


async def any_between(reader: Reader, *, customer_ids: list[str], mitra_id: str) -> bool:
    """Return whether one of these customers has ever had a session with a mitra."""
    return bool(await reader.fetchval(SQL["any_between"], customer_ids, mitra_id))


async def searching_or_held(reader: Reader, *, customer_ids: Sequence[str], mitra_id: str) -> list[str]:
    """Return the ids of a customer's searching sessions and of their running chats with a mitra, in order of
    locking.
    """
    return [row["id"] for row in await reader.fetch(SQL["searching_or_held"], customer_ids, mitra_id)]


async def plan_repeat(tx: Tx, session_id: str, *, at: dt.datetime) -> None:
    """Plan to send the customer the number of asked mitras at `at`, unless that is planned already."""
    await PLAN_REPEAT.execute(tx, id=session_id, at=at)


async def claim_repeats(tx: Tx) -> list[Session]:
    """Claim the searches whose number of asked mitras is due to be sent to the customer. Each is claimed once."""
    return await CLAIM_REPEATS.all(tx, now=tx.now)


async def lock_quiet_rounds(tx: Tx, *, now: dt.datetime, limit: int) -> dict[str, dt.datetime]:
    """Lock running blasts whose round is over and that have no open invitation; return session id -> end of its search.

    Sessions that another transaction has locked are left to the next look. Another transaction may have made an
    invitation just before the lock, so check again.
    """
    return dict(await tx.fetch(SQL["lock_quiet_rounds"], now, limit))


async def begin_rounds(tx: Tx, ends: dict[str, dt.datetime]) -> None:
    """Move searching sessions to their next rounds.

    `ends` is session id -> end of its round. The caller has locked them.
    """
    await tx.execute(SQL["begin_rounds"], list(ends), list(ends.values()))


async def claim_warnings(tx: Tx) -> list[Session]:
    """Claim the due warnings and return their sessions, without those whose paid time is over by now."""
    rows = await CLAIM_WARNINGS.all(tx, now=tx.now)
    return [row for row in rows if row.status is SessionStatus.ACTIVE and row.expires_at and row.expires_at > tx.now]


async def delivered_count(reader: Reader, session_id: str) -> int:
    """Return the number of delivered messages of a `closing` session in which a side has said goodbye; 0 for all
    others."""
    return await reader.fetchval(SQL["delivered_count"], session_id) or 0


async def due_very_long(reader: Reader, *, now: dt.datetime, over: int) -> dict[str, int]:
    """Return session id -> its delivered messages, for sessions whose grace period is over and that have more than
    `over`."""
    return dict(await reader.fetch(SQL["due_very_long"], now, over))


async def set_sensitivity(tx: Tx, session_id: str, *, before: str, after: str, mitra_id: str) -> None:
    """Set a session's topic sensitivity and add the log row."""
    await SET_SENSITIVITY.execute(tx, id=session_id, after=after)
    await LOG_SENSITIVITY.execute(
        tx,
        id=ids.new_id(),
        session_id=session_id,
        changed_by_mitra_id=mitra_id,
        from_value=before,
        to_value=after,
        created_at=tx.now,
    )


async def begin_round(tx: Tx, session_id: str, *, round_number: int, round_ends_at: dt.datetime) -> None:
    """Move a searching session to this round, which ends its wave. From its second round on, a search is a blast."""
    await BEGIN_ROUND.execute(tx, id=session_id, round_number=round_number, round_ends_at=round_ends_at)


async def set_wave(tx: Tx, session_id: str, *, wave_number: int, wave_ends_at: dt.datetime | None) -> None:
    """Store the newest wave of a searching session, and when it ends; None if no wave is running."""
    await SET_WAVE.execute(tx, id=session_id, wave_number=wave_number, wave_ends_at=wave_ends_at)


async def end_answered_wave(tx: Tx, session_id: str) -> bool:
    """End the running wave of a search if none of its invitations is open. Return whether it has ended now.

    The caller must hold the session's lock.
    """
    return bool(await tx.execute(SQL["end_answered_wave"], session_id, tx.now))


async def keep_traceparent(tx: Tx, session_id: str, traceparent: str) -> None:
    """Store the traceparent of the beginning of a session's search."""
    await KEEP_TRACEPARENT.execute(tx, id=session_id, traceparent=traceparent)


async def traceparent(reader: Reader, session_id: str) -> str | None:
    """Return the traceparent of the beginning of a session's search; None if it has none."""
    return await TRACEPARENT.value(reader, id=session_id)


async def add_closure(tx: Tx, session_id: str, *, user_type: str, user_id: str, message: str) -> int:
    """Store a goodbye and return how many the session has now. Return 0 if this side has one already."""
    added = await ADD_CLOSURE.execute(
        tx,
        id=ids.new_id(),
        session_id=session_id,
        user_type=user_type,
        user_id=user_id,
        message=message,
        created_at=tx.now,
    )
    return await tx.fetchval(SQL["count_closures"], session_id) if added else 0
