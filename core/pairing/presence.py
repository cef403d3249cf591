"""Take mitras online or offline, by their own choice, by an operator or after silence (docs/product.md#presence)."""

from collections.abc import Sequence

import attrs

from core.accounts.mitras import store as mitras
from core.accounts.mitras.rules import StatusReason
from core.events.notices import Notice
from core.pairing import announce, invitations, rules, search
from core.pairing import store as pairing
from core.pairing.rules import Response
from core.sessions import store as sessions
from core.sessions.states import SessionStatus
from core.sessions.store import Session
from core.storage.transaction import Tx


async def bring_online(tx: Tx, mitra_id: str) -> None:
    """Take a mitra online at their own request. If they are online already, this only counts as a heartbeat.

    The caller must hold the lock of the mitra's row.
    """
    if await mitras.go_online(tx, mitra_id):
        await announce.mitra_status_changed(tx, [mitra_id], is_online=True, reason=StatusReason.SELF)


async def take_offline(
    tx: Tx, mitra_id: str, reason: StatusReason | None, *, locked: Sequence[Session] | None = None
) -> Notice | None:
    """Take a mitra offline, close their open invitations as `IGNORED`, and fail a targeted search for them.

    The caller must hold the lock of the mitra's row. The sessions of the open invitations are locked here, in order of
    their ids, unless the caller has them from `lock_sessions`. An invitation created concurrently is not visible yet;
    the `close_orphaned_invitations` sweep closes it.

    Without a reason no event is sent: the mitra has no device that could get it. Returns the event stored for the
    mitra's devices. None if the mitra was offline already or chose to go offline; a deactivation always stores one,
    because it ends their auth sessions.
    """
    asking = await _lock_asking(tx, mitra_id) if locked is None else locked
    notices = []
    gone = await mitras.go_offline(tx, [mitra_id])
    if reason is not None and (gone or reason is StatusReason.DEACTIVATED):
        notices = await announce.mitra_status_changed(tx, [mitra_id], is_online=False, reason=reason)
    for session in asking:
        await _ignore(tx, [mitra_id], session)
    return notices[0] if notices else None


async def leave_if_signed_out(tx: Tx, mitra_id: str) -> None:
    """Take an online mitra offline who has no living auth session, and so no device to tell.

    The caller must hold the lock of the mitra's row. Sessions are locked only if the mitra is online: a caller that has
    taken them offline itself may hold later locks.
    """
    found = await mitras.presence(tx, mitra_id, now=tx.now)
    if found is not None and found.is_online and not found.is_signed_in:
        await take_offline(tx, mitra_id, None)


@attrs.frozen(kw_only=True)
class NotTaken:
    """Silent mitras who are still online after a batch, by the reason.

    `locked`: a session that asks them is locked. `apart`: a targeted search for them would fail, which takes many
    statements and the lock of a payment, so they need their own transaction. `postponed`: the batch has enough
    invitations without theirs.
    """

    locked: Sequence[str] = ()
    apart: Sequence[str] = ()
    postponed: Sequence[str] = ()


async def take_silent_offline(tx: Tx, mitra_ids: Sequence[str], *, most_invitations: int) -> NotTaken:
    """Take mitras offline after silence, with the effects of `take_offline`, but without waiting for a session.

    The mitras have at most `most_invitations` open invitations together, unless the first one alone has more. The
    caller must hold the locks of the mitras' rows.
    """
    open_counts = await pairing.count_open(tx, mitra_ids)
    taken, total = [], 0
    for mitra_id in mitra_ids:
        total += open_counts.get(mitra_id, 0)
        if taken and total > most_invitations:
            break
        taken.append(mitra_id)
    asked = await pairing.open_invitations(tx, taken) if open_counts else {}
    asking = await sessions.lock_free(tx, asked) if asked else []
    free = {session.id for session in asking}
    locked = {one for session_id, some in asked.items() if session_id not in free for one in some}
    apart: set[str] = set()
    if len(mitra_ids) > 1:
        apart = {one for session in asking if _fails_without(session) for one in asked[session.id]}
    going = await mitras.go_offline(tx, [one for one in taken if one not in locked | apart])
    if going:
        await announce.mitra_status_changed(tx, sorted(going), is_online=False, reason=StatusReason.STALE)
    for session in asking:
        if ignoring := [one for one in asked[session.id] if one in going]:
            await _ignore(tx, ignoring, session)
    return NotTaken(locked=sorted(locked), apart=sorted(apart - locked), postponed=mitra_ids[len(taken) :])


async def lock_sessions(tx: Tx, mitra_id: str) -> list[Session]:
    """Lock a mitra's sessions that have not ended and those that have an open invitation to them, and return them.

    The caller must hold the lock of the mitra's row, so that the mitra gets no other session. Sessions are locked in
    order of their ids, as batches of messages do. Nothing that follows in the transaction needs another session: a
    second round of locks may find smaller ids, and deadlock with a batch.
    """
    ids = {*await sessions.unended_of_mitra(tx, mitra_id), *await pairing.open_invitations(tx, [mitra_id])}
    locked = [await sessions.lock(tx, session_id) for session_id in sorted(ids)]
    return [session for session in locked if session is not None]


async def close_orphaned_invitations(tx: Tx, mitra_id: str) -> None:
    """Close invitations that were created while the mitra went offline.

    The caller must hold the lock of the mitra's row.
    """
    presence = await mitras.presence(tx, mitra_id, now=tx.now)
    if presence is None or not presence.is_online:
        for session in await _lock_asking(tx, mitra_id):
            await _ignore(tx, [mitra_id], session)


async def _lock_asking(tx: Tx, mitra_id: str) -> list[Session]:
    """Lock the sessions that have an open invitation to a mitra."""
    locked = [await sessions.lock(tx, session_id) for session_id in await pairing.open_invitations(tx, [mitra_id])]
    return [session for session in locked if session is not None]


def _fails_without(session: Session) -> bool:
    """Return whether the search of a session fails when a mitra with an invitation goes offline."""
    return session.status is SessionStatus.SEARCHING and rules.after_absence(search.running(session)) is not None


async def _ignore(tx: Tx, mitra_ids: Sequence[str], session: Session) -> None:
    """Close the invitations of mitras who went offline to a session, which the caller has locked."""
    if session.status is not SessionStatus.SEARCHING:
        return
    cause = rules.after_absence(search.running(session))
    if cause is not None:
        await search.give_up(tx, session, cause)
    elif closed := await pairing.respond(tx, session.id, mitra_ids, Response.IGNORED):
        await announce.requests_closed(tx, session.id, closed, "timeout", topic_sensitivity=session.topic_sensitivity)
        await invitations.end_answered_wave(tx, session)
