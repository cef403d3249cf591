"""Take a mitra online or offline, by their own choice, by an operator or after silence (docs/product.md#presence)."""

from core.events.notices import Notice
from core.mitras import store as mitras
from core.mitras.rules import StatusReason
from core.pairing import rules
from core.pairing import store as pairing
from core.pairing.rules import Response
from core.sessions import store as sessions
from core.sessions.states import SessionStatus
from core.sessions.store import Session
from core.steps import announce, invitations, search
from core.storage.transaction import Tx


async def bring_online(tx: Tx, mitra_id: str) -> None:
    """Take a mitra online at their own request. If they are online already, this only counts as a heartbeat.

    The caller must hold the lock of the mitra's row.
    """
    if await mitras.go_online(tx, mitra_id):
        await announce.mitra_status_changed(tx, mitra_id, is_online=True, reason=StatusReason.SELF)


async def take_offline(tx: Tx, mitra_id: str, reason: StatusReason) -> Notice | None:
    """Take a mitra offline, close their open invitations as `IGNORED`, and fail a targeted search for them.

    The caller must hold the lock of the mitra's row. The sessions of the open invitations are locked here, in order of
    their ids. An invitation created concurrently is not visible yet; the `close_orphaned_invitations` sweep closes it.

    Returns the event stored for the mitra's devices. None if the mitra was offline already or chose to go offline; a
    deactivation always stores one, because it ends their auth sessions.
    """
    asked = await _asking(tx, mitra_id)
    notice = None
    if await mitras.go_offline(tx, mitra_id) or reason is StatusReason.DEACTIVATED:
        notice = await announce.mitra_status_changed(tx, mitra_id, is_online=False, reason=reason)
    await _ignore(tx, mitra_id, asked)
    return notice


async def lock_sessions(tx: Tx, mitra_id: str) -> list[Session]:
    """Lock a mitra's sessions and those that have an open invitation to them.

    Return the mitra's own sessions, active or expired. The caller must hold the lock of the mitra's row. Sessions are
    locked in order of their ids, as batches of messages do.
    """
    ids = {*await sessions.held_by(tx, mitra_id), *await pairing.open_sessions_of(tx, mitra_id)}
    locked = [await sessions.lock(tx, session_id) for session_id in sorted(ids)]
    return [session for session in locked if session is not None and session.mitra_id == mitra_id]


async def close_orphaned_invitations(tx: Tx, mitra_id: str) -> None:
    """Close invitations that were created while the mitra went offline.

    The caller must hold the lock of the mitra's row.
    """
    presence = await mitras.presence(tx, mitra_id, now=tx.now)
    if presence is None or not presence.is_online:
        await _ignore(tx, mitra_id, await _asking(tx, mitra_id))


async def _asking(tx: Tx, mitra_id: str) -> list[Session | None]:
    return [await sessions.lock(tx, session_id) for session_id in await pairing.open_sessions_of(tx, mitra_id)]


async def _ignore(tx: Tx, mitra_id: str, asked: list[Session | None]) -> None:
    for session in asked:
        if session is None or session.status is not SessionStatus.SEARCHING:
            continue
        cause = rules.after_absence(search.running(session))
        if cause is not None:
            await search.give_up(tx, session, cause)
        elif await pairing.respond(tx, session.id, mitra_id, Response.IGNORED):
            await announce.requests_closed(
                tx, session.id, [mitra_id], "timeout", topic_sensitivity=session.topic_sensitivity
            )
            await invitations.end_answered_wave(tx, session)
