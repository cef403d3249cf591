"""Changes of a session's status. The flows that make them have the effects.

Each transition is one statement that names the expected state, so two transactions can't both make it. The caller of a
transition of one session must hold the session's lock and have checked its state.
"""

import datetime as dt
import itertools

from core.sessions import rules
from core.sessions.states import EDGES, HELD, SessionStatus
from core.sessions.store import RETURNING, Session
from core.sessions.tables import ChatSession as Sessions
from core.storage import sql_files
from core.storage.records import many
from core.storage.statements import insert, p, statement, transition
from core.storage.transaction import Tx

S = SessionStatus
SQL = sql_files.load(__file__)
CREATE = statement(
    insert(
        Sessions,
        "id customer_id payment_request_id mode created_at duration_minutes price is_first_session_discount topics "
        "targeted_mitra_id round_number round_ends_at search_ends_at",
        status=S.SEARCHING,
    )
)
CREATE_COMPLETED = statement(
    insert(
        Sessions,
        "id customer_id mitra_id created_at paired_at expires_at ended_at duration_minutes topics",
        status=S.COMPLETED,
        ended_by="timer",
    )
)
PAIR = statement(
    transition(
        Sessions,
        EDGES,
        [S.SEARCHING],
        S.ACTIVE,
        mitra_id=p.mitra_id,
        paired_at=p.now,
        expires_at=p.expires_at,
        warn_at=p.warn_at,
    )
)
END_SEARCH = {
    after: statement(transition(Sessions, EDGES, [S.SEARCHING], after, ended_at=p.now))
    for after in (S.FAILED, S.CANCELLED)
}
BEGIN_CLOSING = {
    before: statement(
        transition(
            Sessions,
            EDGES,
            [before],
            S.CLOSING,
            ended_by=p.ended_by,
            ended_at=p.now,
            warn_at=None,
            grace_ends_at=p.grace_ends_at,
        )
    )
    for before in HELD
}
COMPLETE = statement(
    transition(Sessions, EDGES, [S.CLOSING], S.COMPLETED, ended_at=p.now, grace_ends_at=None),
)


class NotInState(Exception):
    """The session is not in the state in which the transition starts: the caller's transaction must not commit."""


async def create(tx: Tx, session: Session, *, is_first_session_discount: bool) -> None:
    """Insert a searching session."""
    values = {name: getattr(session, name) for name in CREATE.names if name != "is_first_session_discount"}
    await CREATE.execute(tx, **values, is_first_session_discount=is_first_session_discount)


async def create_completed(
    tx: Tx,
    session_id: str,
    *,
    customer_id: str,
    mitra_id: str,
    began_at: dt.datetime,
    ended_at: dt.datetime,
    topics: list[str] | None,
) -> None:
    """Insert a past session, for development only."""
    await CREATE_COMPLETED.execute(
        tx,
        id=session_id,
        customer_id=customer_id,
        mitra_id=mitra_id,
        created_at=began_at,
        paired_at=began_at,
        expires_at=ended_at,
        ended_at=ended_at,
        duration_minutes=int((ended_at - began_at).total_seconds() // 60),
        topics=topics,
    )


async def pair(tx: Tx, session_id: str, *, mitra_id: str, expires_at: dt.datetime, warn_at: dt.datetime | None) -> None:
    """Move a session from `searching` to `active`, with the mitra who accepted first. Raises NotInState."""
    _check_moved(
        session_id,
        await PAIR.execute(tx, id=session_id, mitra_id=mitra_id, now=tx.now, expires_at=expires_at, warn_at=warn_at),
    )


async def end_search(tx: Tx, session_id: str, status: SessionStatus) -> None:
    """Move a session from `searching` to `failed` or `cancelled`. Raises NotInState."""
    _check_moved(session_id, await END_SEARCH[status].execute(tx, id=session_id, now=tx.now))


async def expire_due(tx: Tx, *, grace: dt.timedelta, limit: int) -> list[Session]:
    """Move sessions whose paid time is over from `active` to `expired`. Locked ones are left to the next look."""
    return many(Session, await tx.fetch(f"{SQL['expire_due']} {RETURNING}", tx.now, grace, limit))


async def prolong(
    tx: Tx,
    session_id: str,
    *,
    before: SessionStatus,
    expires_at: dt.datetime,
    warn_at: dt.datetime | None,
    minutes: int,
    resumed_at: dt.datetime | None,
) -> None:
    """Give a session in `active` or `expired` a new end; it is `active` afterwards. `minutes` is what it gained.

    `resumed_at` is when its paid time runs again, if that was over. Raises NotInState.
    """
    _check_moved(
        session_id, await tx.execute(SQL["prolong"], session_id, before, expires_at, warn_at, minutes, resumed_at)
    )


async def revive(tx: Tx, session_ids: list[str]) -> None:
    """Move expired sessions whose end has moved into the future back to `active`. The caller has locked them."""
    await tx.execute(SQL["revive"], session_ids, tx.now, rules.WARNING)


async def begin_closing(tx: Tx, session_id: str, *, before: SessionStatus, ended_by: str, grace: dt.timedelta) -> None:
    """Move a session from `active` or `expired` to `closing`; its grace period starts now. Raises NotInState."""
    _check_moved(
        session_id,
        await BEGIN_CLOSING[before].execute(
            tx, id=session_id, ended_by=ended_by, now=tx.now, grace_ends_at=tx.now + grace
        ),
    )


async def complete(tx: Tx, session_id: str) -> None:
    """Move a session from `closing` to `completed`. Raises NotInState."""
    _check_moved(session_id, await COMPLETE.execute(tx, id=session_id, now=tx.now))


def _check_moved(session_id: str, rows: int) -> None:
    """Check that a transition changed its row. Raises NotInState."""
    if rows == 0:
        raise NotInState(session_id)


async def complete_due(tx: Tx, *, limit: int, messages: int, very_long: str | None = None) -> list[Session]:
    """Complete at most `limit` sessions whose grace period is over, with at most `messages` delivered messages in all.

    A session with more messages is skipped, unless its id is `very_long`; then it is completed alone.
    Uses two statements, so that the second sees extensions that were requested while the first waited for locks.
    """
    rows = await tx.fetch(SQL["lock_due"], tx.now, limit, messages, very_long)
    if not rows:
        return []
    sums = itertools.accumulate(row["delivered"] for row in rows)
    taken = [
        row["id"]
        for number, (row, total) in enumerate(zip(rows, sums, strict=True))
        if number == 0 or total <= messages
    ]
    return many(Session, await tx.fetch(f"{SQL['complete_due']} {RETURNING}", tx.now, taken))
