"""Take mitras online or offline, by their own choice, by an operator or after silence (docs/product.md#presence)."""

import contextlib
import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from core.accounts.mitras import store as mitras
from core.accounts.mitras.rules import HeartbeatChannel, MitraOffline, StatusReason
from core.base.actor import Actor
from core.base.clock import real_sleep
from core.base.errors import NotFound, Unauthenticated, Unavailable
from core.events.notices import Notice
from core.events.signals import DeadlineSet, MitrasFreed
from core.pairing import announce, invitations, rules, search
from core.pairing import store as pairing
from core.pairing.rules import Response
from core.runtime.container import Runtime
from core.sessions import store as sessions
from core.sessions.states import SessionStatus
from core.sessions.store import Session
from core.storage.transaction import Tx
from core.telemetry import logs, metrics

AT_ONCE = 200  # mitras taken offline in one transaction, and the open invitations that it closes
INVITATIONS_AT_ONCE = 1_000
LOCKED_S = 0.25  # pause, in real time, before the sweep tries again to lock a silent mitra's sessions
log = logs.get("presence")


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
        await ignore(tx, [mitra_id], session)
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
            await ignore(tx, ignoring, session)
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


async def _close_orphaned(tx: Tx, mitra_id: str) -> None:
    """Close invitations that were created while the mitra went offline.

    The caller must hold the lock of the mitra's row.
    """
    presence = await mitras.presence(tx, mitra_id, now=tx.now)
    if presence is None or not presence.is_online:
        for session in await _lock_asking(tx, mitra_id):
            await ignore(tx, [mitra_id], session)


async def _lock_asking(tx: Tx, mitra_id: str) -> list[Session]:
    """Lock the sessions that have an open invitation to a mitra."""
    locked = [await sessions.lock(tx, session_id) for session_id in await pairing.open_invitations(tx, [mitra_id])]
    return [session for session in locked if session is not None]


def _fails_without(session: Session) -> bool:
    """Return whether the search of a session fails when a mitra with an invitation goes offline."""
    return session.status is SessionStatus.SEARCHING and rules.after_absence(search.running(session)) is not None


async def ignore(tx: Tx, mitra_ids: Sequence[str], session: Session) -> None:
    """Close the invitations of mitras who went offline, or look so, to a session, which the caller has locked."""
    if session.status is not SessionStatus.SEARCHING:
        return
    cause = rules.after_absence(search.running(session))
    if cause is not None:
        await search.give_up(tx, session, cause)
    elif closed := await pairing.respond(tx, session.id, mitra_ids, Response.IGNORED):
        await announce.requests_closed(tx, session, closed, "timeout")
        await invitations.end_answered_wave(tx, session)


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
        await bring_online(tx, mitra.id)
        tx.emit(MitrasFreed(mitra_ids=[mitra.id]))
        tx.emit(DeadlineSet(at=tx.now + runtime.config.seconds("mitra_stale_after_seconds")))


async def go_offline(runtime: Runtime, *, mitra_id: str) -> None:
    """Take a mitra offline at their own request. Their open invitations are closed as `IGNORED`. Raises NotFound."""
    async with runtime.transaction() as tx:
        if await mitras.lock(tx, mitra_id) is None:
            raise NotFound
        await take_offline(tx, mitra_id, StatusReason.SELF)


async def heartbeat(runtime: Runtime, actor: Actor, channel: HeartbeatChannel) -> bool:
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
            heard = await mitras.heartbeats(tx, mitra_ids, HeartbeatChannel.SOCKET)
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
            return found, await take_silent_offline(tx, found, most_invitations=INVITATIONS_AT_ONCE)
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
                await leave_if_signed_out(tx, mitra_id)
        except Unavailable:
            raise
        except Exception:  # one failure must not keep other mitras online
            log.exception("taking a signed-out mitra offline failed", mitra_id=mitra_id)


async def close_orphaned_invitations(runtime: Runtime) -> dt.datetime | None:
    """Sweep: close invitations that were created while their mitra went offline."""
    for mitra_id in await pairing.asked_offline(runtime.db):
        try:
            async with runtime.transaction() as tx:
                if await mitras.lock(tx, mitra_id) is not None:
                    await _close_orphaned(tx, mitra_id)
        except Unavailable:
            raise
        except Exception:  # one failure must not keep other mitras' invitations open
            log.exception("closing an offline mitra's invitations failed", mitra_id=mitra_id)
    return None
