"""A mitra goes online and offline, and sends heartbeats (docs/product.md#presence, docs/product.md#heartbeat)."""

import contextlib
import datetime as dt
from collections.abc import Iterator
from typing import Any

from core.accounts.mitras import store as mitras
from core.accounts.mitras.rules import Channel, MitraOffline, StatusReason
from core.base.actor import Actor
from core.base.clock import real_sleep
from core.base.errors import NotFound, Unauthenticated, Unavailable
from core.events.signals import DeadlineSet, MitrasFreed
from core.pairing import presence
from core.pairing import store as pairing
from core.pairing.presence import NotTaken
from core.runtime.container import Runtime
from core.telemetry import logs, metrics

AT_ONCE = 200  # mitras taken offline in one transaction, and the open invitations that it closes
INVITATIONS_AT_ONCE = 1_000
LOCKED_S = 0.25  # pause, in real time, before the sweep tries again to lock a silent mitra's sessions
log = logs.get("presence")


async def go_online(runtime: Runtime, actor: Actor) -> None:
    """Take the calling mitra online and invite them to every running blast.

    Raises MitraOffline for an inactive mitra, and Unauthenticated if all their auth sessions have ended since the
    request came: the mitra's lock decides which was first.
    """
    async with runtime.transaction() as tx:
        mitra = await mitras.lock(tx, actor.user_id)
        if mitra is None or not mitra.is_active:
            raise MitraOffline
        if not await mitras.is_signed_in(tx, mitra.id, now=tx.now):
            raise Unauthenticated
        await presence.bring_online(tx, mitra.id)
        tx.emit(MitrasFreed(mitra_ids=[mitra.id]))
        tx.emit(DeadlineSet(at=tx.now + runtime.config.seconds("mitra_stale_after_seconds")))


async def go_offline(runtime: Runtime, *, mitra_id: str) -> None:
    """Take a mitra offline at their own request. Their open invitations are closed as `IGNORED`. Raises NotFound."""
    async with runtime.transaction() as tx:
        if await mitras.lock(tx, mitra_id) is None:
            raise NotFound
        await presence.take_offline(tx, mitra_id, StatusReason.SELF)


async def heartbeat(runtime: Runtime, actor: Actor, channel: Channel) -> bool:
    """Store a heartbeat of the calling mitra; return whether it is a sign of life: no presence check has caused it.

    Raises MitraOffline while the mitra is offline.
    """
    with _noting_loss(runtime):
        async with runtime.transaction() as tx:
            heard = await mitras.heartbeat(tx, actor.user_id, channel)
            if not heard.is_online:
                raise MitraOffline
    metrics.PRESENCE_CHECKS.labels("answered").inc(heard.is_answer)
    return not heard.is_prompted


async def heartbeats(runtime: Runtime, mitra_ids: list[str]) -> dict[str, bool]:
    """Store heartbeats that came over sockets, in one statement. Return whether each mitra is online, by id.

    A mitra missing from the result has a locked row; call `heartbeat`, which waits for it.
    """
    with _noting_loss(runtime):
        async with runtime.transaction() as tx:
            heard = await mitras.heartbeats(tx, mitra_ids, Channel.SOCKET)
    metrics.PRESENCE_CHECKS.labels("answered").inc(sum(one.is_answer for one in heard.values()))
    return {mitra_id: one.is_online for mitra_id, one in heard.items()}


@contextlib.contextmanager
def _noting_loss(runtime: Runtime) -> Iterator[None]:
    """Record lost heartbeats if the database does not store them in time. Then silence does not count for a while."""
    try:
        yield
    except Unavailable:
        runtime.note_overload()
        raise


async def sweep_stale(runtime: Runtime) -> dt.datetime | None:
    """Sweep: take mitras offline whose last heartbeat is too old, if heartbeats are required."""
    if not runtime.config.flag("require_mitra_ping"):
        return None
    besides: set[str] = set()  # mitras left to the next run, or to their own transaction
    apart: list[str] = []
    while True:
        found, not_taken = await _take_silent(runtime, limit=AT_ONCE, besides=besides)
        apart += not_taken.apart
        besides.update(not_taken.locked, not_taken.apart)
        if len(found) < AT_ONCE and not not_taken.postponed:
            break
    for mitra_id in apart:
        await _take_silent(runtime, limit=1, only=[mitra_id])
    if besides.difference(apart):
        await real_sleep(LOCKED_S)
    return None


async def _take_silent(runtime: Runtime, *, limit: int, **which: Any) -> tuple[list[str], NotTaken]:
    """Take up to `limit` silent mitras offline in one transaction, without waiting for one of them or their sessions.

    `which` are the parameters of `mitras.lock_stale`. Return who was found, and who of them is still online. After an
    error all of them are, and each needs its own transaction: one failure must not keep other mitras online.
    """
    found: list[str] = []
    stale_after = runtime.config.seconds("mitra_stale_after_seconds").total_seconds()
    try:
        async with runtime.transaction() as tx:
            found = await mitras.lock_stale(
                tx, stale_after_seconds=stale_after, now=runtime.now(), limit=limit, **which
            )
            if not found:
                return found, NotTaken()
            return found, await presence.take_silent_offline(tx, found, most_invitations=INVITATIONS_AT_ONCE)
    except Unavailable:
        raise
    except Exception:
        if not found:
            raise
        log.exception("taking silent mitras offline failed", mitra_ids=found[:10])
        return found, NotTaken(apart=found if len(found) > 1 else ())


async def take_signed_out_offline(runtime: Runtime) -> None:
    """Sweep: take mitras offline whose last auth session has expired. Until then they are not eligible already."""
    for mitra_id in await mitras.online_without_sign_in(runtime.db, now=runtime.now()):
        try:
            async with runtime.transaction() as tx:
                await mitras.lock(tx, mitra_id)
                await presence.leave_if_signed_out(tx, mitra_id)
        except Exception:  # one failure must not keep other mitras online
            log.exception("taking a signed-out mitra offline failed", mitra_id=mitra_id)


async def close_orphaned_invitations(runtime: Runtime) -> dt.datetime | None:
    """Sweep: close invitations that were created while their mitra went offline."""
    for mitra_id in await pairing.asked_offline(runtime.db):
        try:
            async with runtime.transaction() as tx:
                if await mitras.lock(tx, mitra_id) is not None:
                    await presence.close_orphaned_invitations(tx, mitra_id)
        except Exception:  # one failure must not keep other mitras' invitations open
            log.exception("closing an offline mitra's invitations failed", mitra_id=mitra_id)
    return None
