"""A mitra goes online and offline, and is heard of (specification, Mitra online status)."""

import contextlib
import datetime as dt
from collections.abc import Iterator

from core.base import logs
from core.base.actor import Actor
from core.base.errors import NotFound, Unavailable
from core.events.signals import DeadlineSet, MitrasFreed
from core.mitras import store as mitras
from core.mitras.rules import Channel, MitraOffline, StatusReason
from core.pairing import store as pairing
from core.runtime import Runtime
from core.steps import presence

log = logs.get("presence")


async def go_online(runtime: Runtime, actor: Actor) -> None:
    """offline -> online; she is asked for every blast that runs. Raises MitraOffline for an inactive mitra."""
    async with runtime.transaction() as tx:
        mitra = await mitras.lock(tx, actor.user_id)
        if mitra is None or not mitra.is_active:
            raise MitraOffline
        await presence.bring_online(tx, mitra.id)
        tx.signal(MitrasFreed(mitra_ids=[mitra.id]))
        tx.signal(DeadlineSet(at=tx.now + runtime.config.seconds("mitra_stale_after_seconds")))


async def go_offline(runtime: Runtime, *, mitra_id: str) -> None:
    """online -> offline; requests open to the mitra are ignored ones from now on."""
    async with runtime.transaction() as tx:
        if await mitras.lock(tx, mitra_id) is None:
            raise NotFound
        await presence.take_offline(tx, mitra_id, StatusReason.SELF)


async def heartbeat(runtime: Runtime, actor: Actor, channel: Channel) -> None:
    """Store a heartbeat of the mitra. Raises MitraOffline while the mitra is offline."""
    with _noting_loss(runtime):
        async with runtime.transaction() as tx:
            if not await mitras.heartbeat(tx, actor.user_id, channel):
                raise MitraOffline


async def heartbeats(runtime: Runtime, mitra_ids: list[str]) -> dict[str, bool]:
    """Store heartbeats that came over sockets, in one statement; return whether each mitra is online.

    A mitra missing from the result has a locked row: `heartbeat` waits for the lock.
    """
    with _noting_loss(runtime):
        async with runtime.transaction() as tx:
            return await mitras.heartbeats(tx, mitra_ids, Channel.SOCKET)


@contextlib.contextmanager
def _noting_loss(runtime: Runtime) -> Iterator[None]:
    """Note lost heartbeats when the database does not store them in time: until then no silence counts."""
    try:
        yield
    except Unavailable:
        runtime.note_overload()
        raise


async def sweep_stale(runtime: Runtime) -> dt.datetime | None:
    """Take mitras offline who were silent for too long, while pings are required."""
    if not runtime.config.flag("require_mitra_ping"):
        return None
    stale_after = runtime.config.seconds("mitra_stale_after_seconds").total_seconds()
    for mitra_id in await mitras.stale(runtime.db, stale_after_seconds=stale_after, now=runtime.now()):
        try:
            async with runtime.transaction() as tx:
                # Still silent, and in nobody else's hands: a sweep never waits for a lock.
                if await mitras.take_stale(tx, mitra_id, stale_after_seconds=stale_after):
                    await presence.take_offline(tx, mitra_id, StatusReason.STALE)
        except Unavailable:
            raise
        except Exception:  # one mitra who can't be taken offline must not keep the others from it
            log.exception("a silent mitra could not be taken offline", mitra_id=mitra_id)
    return None


async def close_asked(runtime: Runtime) -> dt.datetime | None:
    """Sweep: who was asked just as she went offline has not answered (contract 5)."""
    for mitra_id in await pairing.asked_offline(runtime.db):
        try:
            async with runtime.transaction() as tx:
                if await mitras.lock(tx, mitra_id) is not None:
                    await presence.close_asked(tx, mitra_id)
        except Exception:  # one mitra whose requests can't be closed must not keep the others from it
            log.exception("an offline mitra's requests could not be closed", mitra_id=mitra_id)
    return None
