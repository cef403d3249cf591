"""Ask for an extension and end it, with its money (docs/product.md#extensions).

The caller must hold the session's lock. Deactivating a mitra takes the same lock, so each step here sees whether the
mitra is active, and the deactivation sees every extension.
"""

import datetime as dt
from functools import partial

from core.accounts.blocks import store as blocks
from core.accounts.mitras import store as mitras
from core.base.actor import UserType
from core.base.machine import check_edge
from core.deliveries import events
from core.payments import money
from core.payments import store as payments
from core.payments.failures.causes import CauseTag, SubCause, Why
from core.payments.store import PaymentRequest
from core.runtime.container import Runtime
from core.sessions import announce
from core.sessions import rules as session_rules
from core.sessions import transitions as session_transitions
from core.sessions.clock import session_clock
from core.sessions.events import ExtensionRequested, ExtensionResolved, SessionResumed
from core.sessions.extensions import rules
from core.sessions.extensions import store as extensions
from core.sessions.extensions import transitions as extension_transitions
from core.sessions.extensions.rules import ExtensionNotPending
from core.sessions.extensions.states import EARNING, EDGES, ExtensionStatus
from core.sessions.extensions.store import Extension
from core.sessions.extensions.views import view_of
from core.sessions.states import HELD
from core.sessions.store import Session
from core.storage.transaction import Tx

CAUSES = {
    ExtensionStatus.REJECTED: CauseTag.EXTENSION_REJECTED,
    ExtensionStatus.SAFEGUARD_TRIPPED: CauseTag.EXTENSION_SAFEGUARD_TRIPPED,
}


async def _mitra_can_answer(tx: Tx, session: Session) -> bool:
    """Return whether the session's mitra is active. An inactive mitra can't sign in, and so can't answer."""
    return session.mitra_id is not None and await mitras.is_active(tx, session.mitra_id)


async def can_be_given(runtime: Runtime, tx: Tx, session: Session) -> bool:
    """Return whether the session can be extended now, and its mitra can answer."""
    now = await session_clock.now(runtime, tx, session)
    in_time = session_rules.extendable(session.status, expires_at=session.expires_at, now=now)
    return in_time and await _mitra_can_answer(tx, session)


async def ask(
    runtime: Runtime, tx: Tx, session: Session, payment: PaymentRequest, *, answer_by: dt.datetime
) -> Extension:
    """Create the extension of a confirmed payment and ask the mitra.

    If the session is over or the mitra is inactive, the extension trips its safeguard instead and the payment fails. If
    one party has blocked the other, it is rejected as the mitra would, who is not asked. The caller must hold the
    payment's lock and have checked that it has no extension yet.
    """
    possible = await can_be_given(runtime, tx, session)
    extension = await extension_transitions.create(
        tx,
        session_id=session.id,
        payment_request_id=payment.id,
        minutes=payment.duration_minutes,
        price=payment.amount,
        status=ExtensionStatus.PENDING if possible else ExtensionStatus.SAFEGUARD_TRIPPED,
        answer_by=answer_by if possible else tx.now,
    )
    if possible and await _is_blocked(tx, session):
        return await resolve(runtime, tx, session, extension, ExtensionStatus.REJECTED, only=UserType.CUSTOMER)
    if possible:
        await _announce(tx, session, extension, ExtensionRequested)
        events.deadline(tx, answer_by)
    else:
        active = await _mitra_can_answer(tx, session)
        sub_cause = SubCause.SESSION_ENDED if active else SubCause.MITRA_INACTIVE
        await money.fail(tx, payment, Why(CauseTag.EXTENSION_SAFEGUARD_TRIPPED, sub_cause))
        await _announce(tx, session, extension, ExtensionResolved, only=UserType.CUSTOMER)  # the mitra was not asked
    return extension


async def _is_blocked(tx: Tx, session: Session) -> bool:
    assert session.mitra_id is not None
    return await blocks.are_blocked(tx, customer_id=session.customer_id, mitra_id=session.mitra_id)


async def resolve(
    runtime: Runtime,
    tx: Tx,
    session: Session,
    extension: Extension,
    status: ExtensionStatus,
    sub_cause: SubCause = SubCause.REJECTED,
    *,
    only: UserType | None = None,
) -> Extension:
    """End a pending extension: consume or fail its payment and, if approved, extend the session.

    `sub_cause` is what happened if the payment fails with this status. The safeguard trips instead if the session is
    over or the mitra is inactive. `only` this party gets the result, because the mitra was not asked. Raises
    ExtensionNotPending if it was no longer pending.
    """
    check_edge(EDGES, ExtensionStatus.PENDING, status)
    if status in EARNING and session.status not in HELD:
        status, sub_cause = ExtensionStatus.SAFEGUARD_TRIPPED, SubCause.SESSION_ENDED
    elif status is not ExtensionStatus.SAFEGUARD_TRIPPED and not await _mitra_can_answer(tx, session):
        status, sub_cause = ExtensionStatus.SAFEGUARD_TRIPPED, SubCause.MITRA_INACTIVE
    assert extension.payment_request_id is not None  # each extension is asked with its payment
    payment = await payments.lock(tx, extension.payment_request_id)
    resolved = await extension_transitions.resolve(tx, extension.id, status)
    if resolved is None:
        raise ExtensionNotPending
    assert payment is not None
    if status in EARNING:
        await _prolong(runtime, tx, session, resolved)
        await money.consume(tx, payment, session_id=session.id)
        await announce.about_sessions(tx, [session.id], partial(SessionResumed, extension_id=resolved.id))
    else:
        await money.fail(tx, payment, Why(CAUSES[status], sub_cause))
        events.deadline(tx, session.grace_ends_at)
    await _announce(tx, session, resolved, ExtensionResolved, only=only)
    return resolved


async def _announce(
    tx: Tx,
    session: Session,
    extension: Extension,
    event: type[ExtensionRequested | ExtensionResolved],
    *,
    only: UserType | None = None,
) -> None:
    view = view_of(extension, topic_sensitivity=session.topic_sensitivity)
    await announce.to_parties(tx, [(session, event(extension=view))], only=only)


async def _prolong(runtime: Runtime, tx: Tx, session: Session, extension: Extension) -> None:
    """Move the session's end and arm its warning again.

    The minutes are added to `expires_at` while the session is active. After its end they start now.
    """
    assert session.expires_at is not None
    minutes = extension.requested_duration_minutes
    is_over = session.expires_at <= await session_clock.now(runtime, tx, session)
    expires_at = rules.new_end(expires_at=session.expires_at, minutes=minutes, now=tx.now, is_over=is_over)
    warn_at = session_rules.warning_due(expires_at=expires_at, set_at=tx.now)
    await session_transitions.prolong(
        tx,
        session.id,
        before=session.status,
        expires_at=expires_at,
        warn_at=warn_at,
        minutes=minutes,
        resumed_at=tx.now if is_over else None,
    )
    events.deadline(tx, warn_at or expires_at)


async def trip(runtime: Runtime, tx: Tx, session: Session, sub_cause: SubCause) -> None:
    """Trip a session's pending extension and abandon its unpaid extension requests. `sub_cause` says why.

    Called when the session starts closing or its mitra is deactivated.
    """
    pending = await extensions.pending_of(tx, session.id)
    if pending is not None:
        await resolve(runtime, tx, session, pending, ExtensionStatus.SAFEGUARD_TRIPPED, sub_cause)
    await money.abandon_extensions(tx, [session.id])
