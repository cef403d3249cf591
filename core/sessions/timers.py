"""The deadlines of sessions: warning, end of the paid time, end of the grace period (docs/product.md#sessions).

Each sweep claims due rows with SKIP LOCKED, so that several jobs processes share the work and each effect happens once.
"""

from core.base.clock import monotonic
from core.deliveries import events
from core.events.signals import MitrasFreed
from core.payments import money
from core.runtime.container import Runtime
from core.sessions import announce, rules, transitions
from core.sessions import store as sessions
from core.sessions.clock import session_clock
from core.sessions.events import SessionCompleted, SessionExpired, SessionWarning
from core.sessions.messages import statuses
from core.sessions.messages import store as messages
from core.telemetry import metrics

BATCH = 500
VERY_LONG_S = 0.1  # real seconds in each run for syncing very long chats; other due sessions wait no longer than this


async def warn(runtime: Runtime) -> int:
    """Send the due warnings; return how many were due. If `three_minute_warning_enabled` is off, none are sent."""
    async with runtime.transaction() as tx:
        if await session_clock.stands(runtime, tx):
            return 0
        due = await sessions.claim_warnings(tx)
        if runtime.config.flag("three_minute_warning_enabled"):
            await announce.to_parties(
                tx,
                [
                    (s, SessionWarning(session_id=s.id, seconds_left=180, expires_at=s.expires_at))
                    for s in due
                    if s.mitra_id and s.expires_at
                ],
            )
        for session in due:
            events.deadline(tx, session.expires_at)
    return len(due)


async def expire(runtime: Runtime) -> int:
    """Expire active sessions whose paid time is over; return how many."""
    async with runtime.transaction() as tx:
        if await session_clock.stands(runtime, tx):
            return 0
        due = await transitions.expire_due(tx, grace=rules.GRACE, limit=BATCH)
        await announce.about_sessions(tx, [s.id for s in due], SessionExpired)
        for session in due:
            events.deadline(tx, session.grace_ends_at)
    return len(due)


async def complete(runtime: Runtime) -> int:
    """Complete expired or closing sessions whose grace period is over; return how many.

    Very long chats are synced in batches first, so that they don't hold up the others.
    """
    done = await _complete(runtime)
    very_long_chats = await sessions.due_very_long(runtime.db, now=runtime.now(), over=statuses.VERY_LONG_CHAT)
    until = monotonic() + VERY_LONG_S
    for session_id, delivered in very_long_chats.items():
        if await statuses.sync_statuses(runtime, session_id, delivered, until=until):
            try:
                return done + await _complete(runtime, very_long=session_id)
            finally:
                runtime.synced_up_to.pop(session_id, None)
    return done


async def _complete(runtime: Runtime, *, very_long: str | None = None) -> int:
    async with runtime.transaction() as tx:
        if await session_clock.stands(runtime, tx):
            return 0
        due = await transitions.complete_due(tx, limit=BATCH, messages=statuses.VERY_LONG_CHAT, very_long=very_long)
        for session in due:
            tx.count(metrics.SESSIONS_ENDED.labels(session.status.value, session.ended_by))
        ids = [s.id for s in due]
        await messages.sync_all_statuses(tx, ids)
        await money.abandon_extensions(tx, ids)
        await announce.about_sessions(tx, ids, SessionCompleted)
        if due:
            tx.emit(MitrasFreed(mitra_ids=sorted({s.mitra_id for s in due if s.mitra_id})))
    return len(due)
