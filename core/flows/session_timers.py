"""What time does to sessions: the warning, the end, the grace (specification, Fixed constants; contract 5 and 6).

Every sweep takes what is due with SKIP LOCKED, so that several jobs processes share the work and each effect happens once.
"""

from core.events.signals import MitrasFreed
from core.messages import store as messages
from core.runtime import Runtime
from core.sessions import rules
from core.sessions import store as sessions
from core.steps import announce, invoices, marks

BATCH = 500


async def warn(runtime: Runtime) -> int:
    """Give the due warnings; return how many were due. With the switch off they pass in silence."""
    async with runtime.transaction() as tx:
        due = await sessions.take_warnings(tx, limit=BATCH)
        if runtime.config.flag("three_minute_warning_enabled"):
            await announce.session_warning(
                tx,
                [(s.id, s.customer_id, s.mitra_id, s.expires_at) for s in due if s.mitra_id and s.expires_at],
            )
        for session in due:
            announce.deadline(tx, session.expires_at)
    return len(due)


async def expire(runtime: Runtime) -> int:
    """active -> expired for sessions whose time is up; return how many."""
    async with runtime.transaction() as tx:
        due = await sessions.expire_due(tx, grace=rules.GRACE, limit=BATCH)
        await announce.session_event(tx, [s.id for s in due], "session_expired")
        for session in due:
            announce.deadline(tx, session.grace_ends_at)
    return len(due)


async def complete(runtime: Runtime) -> int:
    """expired or closing -> completed when the grace is over; return how many."""
    await marks.bring_up(runtime, await sessions.due_after_much(runtime.db, now=runtime.now(), over=marks.AT_ONCE))
    async with runtime.transaction() as tx:
        due = await sessions.complete_due(tx, limit=BATCH, messages=marks.AT_ONCE)
        ids = [s.id for s in due]
        await messages.fill_in(tx, ids)
        await invoices.abandon_extensions(tx, ids)
        await announce.session_event(tx, ids, "session_completed")
        if due:
            tx.signal(MitrasFreed(mitra_ids=sorted({s.mitra_id for s in due if s.mitra_id})))
    return len(due)
