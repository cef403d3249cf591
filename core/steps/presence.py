"""How a mitra starts and stops taking requests: one place for the mitra's own wish, an operator's, and silence."""

from core.events.notices import Notice
from core.mitras import store as mitras
from core.mitras.rules import StatusReason
from core.pairing import store as pairing
from core.pairing.rules import CauseTag, Response
from core.sessions import store as sessions
from core.sessions.states import SessionStatus
from core.sessions.store import Session
from core.steps import announce, search
from core.storage.database import Tx


async def bring_online(tx: Tx, mitra_id: str) -> None:
    """offline -> online, because the mitra wishes it; when the mitra is online already this is a heartbeat.

    The mitra is locked by the caller.
    """
    if await mitras.go_online(tx, mitra_id):
        await announce.mitra_status_changed(tx, mitra_id, is_online=True, reason=StatusReason.SELF)


async def take_offline(tx: Tx, mitra_id: str, reason: StatusReason) -> Notice | None:
    """online -> offline; requests open to the mitra are ignored ones, a targeted search ends (contract 5).

    Return the event that is stored for the mitra's devices, if any: none when the mitra was offline, unless a deactivation
    ends their auth sessions. The mitra is locked by the caller; the sessions of the mitra's open requests are locked here, in
    id order. A search that asks the mitra at this moment is not seen yet: `close_asked` is for what it has asked.
    """
    asked = await _asking(tx, mitra_id)
    notice = None
    if await mitras.go_offline(tx, mitra_id) or reason is StatusReason.DEACTIVATED:
        notice = await announce.mitra_status_changed(tx, mitra_id, is_online=False, reason=reason)
    await _ignore(tx, mitra_id, asked)
    return notice


async def lock_sessions(tx: Tx, mitra_id: str) -> list[Session]:
    """Lock the sessions of a mitra and those that ask the mitra; return the former that run or have just run out.

    The mitra is locked by the caller. All are locked in id order, as a batch of messages locks them.
    """
    ids = {*await sessions.held_by(tx, mitra_id), *await pairing.open_sessions_of(tx, mitra_id)}
    locked = [await sessions.lock(tx, session_id) for session_id in sorted(ids)]
    return [session for session in locked if session is not None and session.mitra_id == mitra_id]


async def close_asked(tx: Tx, mitra_id: str) -> None:
    """Close what a mitra was asked just as she went offline. The mitra is locked by the caller."""
    presence = await mitras.presence(tx, mitra_id, now=tx.now)
    if presence is None or not presence.is_online:
        await _ignore(tx, mitra_id, await _asking(tx, mitra_id))


async def _asking(tx: Tx, mitra_id: str) -> list[Session | None]:
    return [await sessions.lock(tx, session_id) for session_id in await pairing.open_sessions_of(tx, mitra_id)]


async def _ignore(tx: Tx, mitra_id: str, asked: list[Session | None]) -> None:
    for session in asked:
        if session is None or session.status is not SessionStatus.SEARCHING:
            continue
        if session.targeted_mitra_id is not None:
            await search.give_up(tx, session, CauseTag.TARGETED_MITRA_OFFLINE)
        elif await pairing.respond(tx, session.id, mitra_id, Response.IGNORED):
            await announce.requests_closed(
                tx, session.id, [mitra_id], "timeout", topic_sensitivity=session.topic_sensitivity
            )
