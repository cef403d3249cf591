"""A mitra goes online and offline, and is heard of (specification, Mitra online status)."""

import datetime as dt

from core.base.actor import Actor
from core.base.errors import NotFound
from core.events.signals import DeadlineSet, MitrasFreed
from core.mitras import store as mitras
from core.mitras.rules import MitraOffline
from core.pairing import store as pairing
from core.pairing.rules import CauseTag, Response
from core.runtime import Runtime
from core.sessions import store as sessions
from core.sessions.states import SessionStatus
from core.steps import announce, search
from core.storage.database import Tx


async def go_online(runtime: Runtime, actor: Actor) -> None:
    """offline -> online; she is asked for every blast that runs. Raises MitraOffline for an inactive mitra."""
    async with runtime.transaction() as tx:
        mitra = await mitras.lock(tx, actor.user_id)
        if mitra is None or not mitra.is_active:
            raise MitraOffline
        await mitras.go_online(tx, mitra.id)
        tx.signal(MitrasFreed(mitra_ids=[mitra.id]))
        tx.signal(DeadlineSet(at=tx.now + runtime.config.seconds("mitra_stale_after_seconds")))


async def go_offline(runtime: Runtime, *, mitra_id: str) -> None:
    """online -> offline; requests open to her are ignored ones from now on."""
    async with runtime.transaction() as tx:
        if await mitras.lock(tx, mitra_id) is None:
            raise NotFound
        await _offline(tx, mitra_id)


async def _offline(tx: Tx, mitra_id: str) -> None:
    """The mitra is locked; her open requests' sessions are locked in id order."""
    await mitras.go_offline(tx, mitra_id)
    for session_id in await pairing.open_sessions_of(tx, mitra_id):
        session = await sessions.lock(tx, session_id)
        if session is None or session.status is not SessionStatus.SEARCHING:
            continue
        if session.targeted_mitra_id is not None:
            await search.give_up(tx, session, CauseTag.TARGETED_MITRA_OFFLINE)
        elif await pairing.respond(tx, session_id, mitra_id, Response.IGNORED):
            await announce.requests_closed(
                tx, session_id, [mitra_id], "timeout", topic_sensitivity=session.topic_sensitivity
            )


async def heartbeat(runtime: Runtime, actor: Actor) -> None:
    """Note that the mitra was heard of. Raises MitraOffline while she is offline."""
    async with runtime.transaction() as tx:
        if not await mitras.heartbeat(tx, actor.user_id):
            raise MitraOffline


async def sweep_stale(runtime: Runtime) -> dt.datetime | None:
    """Take mitras offline who were silent for too long, while pings are required."""
    if not runtime.config.flag("require_mitra_ping"):
        return None
    stale_after = runtime.config.number("mitra_stale_after_seconds")
    for mitra_id in await mitras.stale(runtime.db, stale_after_seconds=stale_after, now=runtime.now()):
        async with runtime.transaction() as tx:
            await mitras.lock(tx, mitra_id)
            if await mitras.still_stale(tx, mitra_id, stale_after_seconds=stale_after):
                await _offline(tx, mitra_id)
    return None
