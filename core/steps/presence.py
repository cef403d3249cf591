"""How a mitra stops taking requests: one place for her own wish, an operator's, and silence."""

from core.mitras import store as mitras
from core.pairing import store as pairing
from core.pairing.rules import CauseTag, Response
from core.sessions import store as sessions
from core.sessions.states import SessionStatus
from core.steps import announce, search
from core.storage.database import Tx


async def take_offline(tx: Tx, mitra_id: str) -> None:
    """online -> offline; requests open to her are ignored ones, a targeted search ends (contract 5).

    The mitra is locked by the caller; her open requests' sessions are locked here, in id order.
    """
    asked = [await sessions.lock(tx, session_id) for session_id in await pairing.open_sessions_of(tx, mitra_id)]
    await mitras.go_offline(tx, mitra_id)
    for session in asked:
        if session is None or session.status is not SessionStatus.SEARCHING:
            continue
        if session.targeted_mitra_id is not None:
            await search.give_up(tx, session, CauseTag.TARGETED_MITRA_OFFLINE)
        elif await pairing.respond(tx, session.id, mitra_id, Response.IGNORED):
            await announce.requests_closed(
                tx, session.id, [mitra_id], "timeout", topic_sensitivity=session.topic_sensitivity
            )
