"""A mitra accepts or rejects a chat request. The first acceptance wins, and capacity is never exceeded.

docs/invariants.md#i5 and docs/invariants.md#i6 say what makes that hold.
"""

import datetime as dt

from core.accounts.blocks import store as blocks
from core.accounts.mitras import store as mitras
from core.accounts.mitras.rules import availability_policy
from core.accounts.mitras.store import check_mitra
from core.base.actor import Actor
from core.base.errors import NotFound, Unavailable
from core.base.field_types import Person
from core.base.machine import check_edge
from core.deliveries import events
from core.pairing import announce as announce_pairing
from core.pairing import invitations, rules, search, trace_parents
from core.pairing import store as pairing
from core.pairing.rules import RequestClosed, RequestTaken, Response
from core.payments import money
from core.payments import store as payments
from core.payments.failures.causes import CauseTag
from core.runtime.container import Runtime
from core.sessions import announce as announce_sessions
from core.sessions import rules as session_rules
from core.sessions import store as sessions
from core.sessions import transitions, views
from core.sessions.clock import session_clock
from core.sessions.events import SessionStarted
from core.sessions.states import EDGES, SessionStatus
from core.sessions.store import Session
from core.sessions.views import SessionView
from core.storage.transaction import Reader, Tx
from core.telemetry import logs, metrics, traces

log = logs.get("pairing")


async def accept(runtime: Runtime, actor: Actor, *, session_id: str) -> SessionView:
    """Give the session to the calling mitra if they are the first and have room.

    If the winner repeats the call, they get the same answer. Raises NotFound, RequestTaken, RequestClosed,
    MitraOffline, MitraAtCapacity.
    """
    arrived_at = runtime.now()
    try:
        return await _accept(runtime, actor, session_id=session_id)
    except RequestTaken:
        await _keep_loss(runtime, session_id, actor.user_id, arrived_at)
        raise


async def _keep_loss(runtime: Runtime, session_id: str, mitra_id: str, arrived_at: dt.datetime) -> None:
    """Store by how much a mitra's acceptance was too late; at most once, so repeated calls write nothing."""
    try:
        async with runtime.transaction() as tx:
            await pairing.keep_loss(tx, session_id, mitra_id, arrived_at=arrived_at)
    except Unavailable:
        log.warning("storing by how much an acceptance was too late failed", session_id=session_id)


async def _accept(runtime: Runtime, actor: Actor, *, session_id: str) -> SessionView:
    mitra_id = actor.user_id
    # A thousand mitras may accept at once. This read tells the losers without waiting for a lock.
    session = await _invited(runtime.db, session_id, mitra_id)
    if session.mitra_id is not None and session.mitra_id != mitra_id:
        raise RequestTaken
    parent = await trace_parents.of_session(runtime.db, session_id)
    with traces.span("pairing accept", parent=parent, attributes={"sesi.session_id": session_id}):
        return await _give(runtime, actor, session_id=session_id)


async def _give(runtime: Runtime, actor: Actor, *, session_id: str) -> SessionView:
    """Give the session to the mitra, under the locks (see `accept`)."""
    mitra_id = actor.user_id
    async with runtime.transaction() as tx:
        mitra = await mitras.lock(tx, mitra_id)
        locked = await sessions.lock(tx, session_id)
        asked, response = await pairing.last_response(tx, session_id, mitra_id)
        if mitra is None or locked is None or not asked:
            raise NotFound
        if locked.mitra_id != mitra_id:
            if locked.status is SessionStatus.SEARCHING and response == Response.IGNORED.value:
                # Going offline closed this invitation. Report that as the reason, because the mitra can go online
                # again.
                await _check_available(runtime, tx, locked, mitra_id)
            rules.check_open(locked.status, is_paired=locked.mitra_id is not None, response=response)
            await _check_available(runtime, tx, locked, mitra_id)
            await _pair(tx, locked, Person(id=mitra.id, display_name=mitra.display_name))
        view = await views.one_of(tx, session_id, party_ids=[mitra_id], side=actor.user_type)
    assert view is not None
    return view


async def _invited(reader: Reader, session_id: str, mitra_id: str) -> Session:
    session = await sessions.get(reader, session_id)
    if session is None:
        raise NotFound
    asked, _ = await pairing.last_response(reader, session_id, mitra_id)
    if not asked:
        raise NotFound
    return session


async def _check_available(runtime: Runtime, tx: Tx, session: Session, mitra_id: str) -> None:
    in_time = rules.answer_in_time(search.running(session), now=tx.now)
    if not in_time and not await session_clock.stands(runtime, tx):  # while it stands, the search goes on
        raise RequestClosed
    if await blocks.are_blocked(tx, customer_id=session.customer_id, mitra_id=mitra_id):
        raise RequestClosed  # without the reason: the mitra can do nothing about it
    await check_mitra(tx, mitra_id, availability_policy(runtime.config), customer_id=session.customer_id)


async def _pair(tx: Tx, session: Session, mitra: Person) -> None:
    """Make the searching session active, with all effects: invitations, payment, events, deadlines."""
    check_edge(EDGES, session.status, SessionStatus.ACTIVE)
    assert session.duration_minutes is not None  # each search has the minutes of its payment
    expires_at = tx.now + dt.timedelta(minutes=session.duration_minutes)
    warn_at = session_rules.warning_due(expires_at=expires_at, set_at=tx.now)
    await transitions.pair(tx, session.id, mitra_id=mitra.id, expires_at=expires_at, warn_at=warn_at)
    await pairing.respond(tx, session.id, [mitra.id], Response.ACCEPTED)
    losers = await invitations.end_round(tx, session.id, Response.MISSED)
    if session.payment_request_id is not None:
        payment = await payments.lock(tx, session.payment_request_id)
        assert payment is not None
        await money.consume(tx, payment, session_id=session.id)
        if payment.confirmed_at is not None:
            tx.observe(metrics.PAYMENT_TO_ACCEPT, (tx.now - payment.confirmed_at).total_seconds())
    await announce_pairing.requests_closed(tx, session, losers, "taken")
    await announce_pairing.requests_closed(tx, session, [mitra.id], "accepted")
    await announce_pairing.search_status(tx, session, "paired", mitra=mitra)
    await announce_sessions.about_sessions(tx, [session.id], SessionStarted)
    events.deadline(tx, warn_at or expires_at)


async def reject(runtime: Runtime, actor: Actor, *, session_id: str) -> None:
    """Reject the invitation of the calling mitra. Repeating this changes nothing.

    If every mitra asked has rejected and no other is eligible, the search fails at once. Raises NotFound, RequestTaken,
    RequestClosed.
    """
    mitra_id = actor.user_id
    async with runtime.transaction() as tx:
        session = await sessions.lock(tx, session_id)
        asked, response = await pairing.last_response(tx, session_id, mitra_id)
        if session is None or not asked:
            raise NotFound
        if response == Response.REJECTED.value:
            return
        rules.check_open(session.status, is_paired=session.mitra_id is not None, response=response)
        await pairing.respond(tx, session_id, [mitra_id], Response.REJECTED)
        await announce_pairing.requests_closed(tx, session, [mitra_id], "rejected")
        cause = await _after_rejection(runtime, tx, session)
        if cause is not None:
            await search.give_up(tx, session, cause)
        else:
            await invitations.end_answered_wave(tx, session)


async def _after_rejection(runtime: Runtime, tx: Tx, session: Session) -> CauseTag | None:
    """Return the cause with which the search fails at once, or None if it goes on."""
    present = search.running(session)
    # Thousands of mitras may reject a large blast at once, each with the session's lock. While an invitation is open,
    # not all have rejected, and counting them all would make an acceptance wait for seconds.
    if not present.is_targeted and await pairing.any_open(tx, session.id):
        return None
    tally, anyone_eligible = await search.count(tx, session, availability_policy(runtime.config))
    return rules.after_rejection(present, tally, anyone_eligible=anyone_eligible)
