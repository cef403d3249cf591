"""A party ends a session and says goodbye (docs/product.md#early-end, docs/product.md#goodbyes)."""

from core.base import shown_texts
from core.base.actor import Actor, UserType
from core.base.clock import monotonic
from core.base.errors import Unavailable
from core.base.machine import check_edge
from core.deliveries import events
from core.events.signals import MitrasFreed
from core.payments.failures.causes import SubCause
from core.runtime.container import Runtime
from core.sessions import announce, own_session, rules, transitions, views
from core.sessions import store as sessions
from core.sessions.clock import session_clock
from core.sessions.events import SessionClosing, SessionCompleted
from core.sessions.extensions import extend
from core.sessions.extensions import store as extensions
from core.sessions.messages import statuses as message_statuses
from core.sessions.messages import store as messages
from core.sessions.rules import ClosureExists
from core.sessions.states import EDGES, HELD, SessionStatus
from core.sessions.store import Session
from core.sessions.views import SessionView
from core.storage.transaction import Tx
from core.telemetry import metrics

MAX_CLOSURE = 1000  # characters
SYNC_S = 3.0  # real seconds


async def close(runtime: Runtime, tx: Tx, session: Session, actor: Actor) -> None:
    """Move an active or expired session to `closing`. The mitra has room for another session now."""
    check_edge(EDGES, session.status, SessionStatus.CLOSING)
    await transitions.begin_closing(
        tx, session.id, before=session.status, ended_by=actor.user_type.value, grace=rules.GRACE
    )
    await extend.trip(runtime, tx, session, SubCause.SESSION_ENDED)
    events.deadline(tx, tx.now + rules.GRACE)
    if session.mitra_id is not None:
        tx.emit(MitrasFreed(mitra_ids=[session.mitra_id]))


async def _view(tx: Tx, actor: Actor, session_id: str) -> SessionView:
    view = await views.one_of(tx, session_id, party_ids=list(actor.ids), side=actor.user_type)
    assert view is not None
    return view


async def end(runtime: Runtime, actor: Actor, *, session_id: str) -> SessionView:
    """End a session as a party: early if the switch for their side is on, always after `expires_at`.

    If it has ended already, nothing changes. Raises NotFound, EarlyEndDisabled, SessionNotActive.
    """
    switch = "early_end_mitra_enabled" if actor.user_type is UserType.MITRA else "early_end_customer_enabled"
    async with runtime.transaction() as tx:
        session, _ = await own_session.lock(tx, actor, session_id=session_id)
        status = await status_now(runtime, session, tx)
        if rules.may_end(status, actor.user_type, early_end_enabled=runtime.config.flag(switch)):
            await close(runtime, tx, session, actor)
            await announce.about_sessions(tx, [session_id], SessionClosing)
        return await _view(tx, actor, session_id)


async def status_now(runtime: Runtime, session: Session, tx: Tx) -> SessionStatus:
    """Return the state of a locked session by the clock of sessions."""
    return rules.status_at(
        session.status,
        expires_at=session.expires_at,
        grace_ends_at=session.grace_ends_at,
        extension_pending=session.status in HELD and await extensions.pending_of(tx, session.id) is not None,
        now=await session_clock.now(runtime, tx, session),
    )


async def say_goodbye(runtime: Runtime, actor: Actor, *, session_id: str, message: str) -> SessionView:
    """Store a goodbye. The first one moves an expired session to `closing`, the second completes it.

    Raises NotFound, ValidationFailed, SessionNotClosable, ClosureExists, Unavailable.
    """
    shown_texts.check_text("message", message, most=MAX_CLOSURE)
    await _sync_statuses(runtime, actor, session_id)
    runtime.synced_up_to.pop(session_id, None)
    async with runtime.transaction() as tx:
        session, party_id = await own_session.lock(tx, actor, session_id=session_id)
        side = UserType.MITRA if actor.user_type is UserType.MITRA else UserType.CUSTOMER
        closures = await sessions.add_closure(tx, session_id, user_type=side.value, user_id=party_id, message=message)
        if closures == 0:  # asked first, so that a repeated goodbye has one answer, also when the session is completed
            raise ClosureExists
        rules.may_close(await status_now(runtime, session, tx))
        event: type[SessionClosing | SessionCompleted] | None = None
        if session.status is not SessionStatus.CLOSING:
            await close(runtime, tx, session, actor)
            event = SessionClosing
        if closures == 2:
            await transitions.complete(tx, session_id)
            ended_by = session.ended_by or actor.user_type.value
            tx.count(metrics.SESSIONS_ENDED.labels(SessionStatus.COMPLETED.value, ended_by))
            await messages.sync_all_statuses(tx, [session_id])
            event = SessionCompleted
        if event is not None:
            await announce.about_sessions(tx, [session_id], event)
        return await _view(tx, actor, session_id)


async def _sync_statuses(runtime: Runtime, actor: Actor, session_id: str) -> None:
    """Sync the message statuses of a very long chat before the second goodbye completes it.

    Raises Unavailable if that takes longer than SYNC_S; a retry continues where this call stopped.
    """
    session = await sessions.get(runtime.db, session_id)
    if session is None or not (actor.owns(session.customer_id) or actor.owns(session.mitra_id)):
        return  # the caller refuses it under the lock
    delivered = await sessions.delivered_count(runtime.db, session_id)
    if not await message_statuses.sync_statuses(runtime, session_id, delivered, until=monotonic() + SYNC_S):
        raise Unavailable
