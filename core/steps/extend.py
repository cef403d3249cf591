"""How an extension is asked and how it ends: the only places that touch its money (specification, Core rules 5; contract 6).

The caller holds the session's lock. A mitra's deactivation takes the same locks, so each step here sees whether the mitra
is active, and a deactivation sees each extension.
"""

import datetime as dt

from core.base.machine import check_edge
from core.extensions import rules
from core.extensions import store as extensions
from core.extensions.rules import ExtensionResolved
from core.extensions.states import EDGES, ExtensionStatus
from core.extensions.store import Extension
from core.mitras import store as mitras
from core.pairing.rules import CauseTag
from core.payments import store as payments
from core.payments.store import PaymentRequest
from core.sessions import rules as session_rules
from core.sessions import store as sessions
from core.sessions.states import HELD
from core.sessions.store import Session
from core.steps import announce, invoices, money
from core.storage.database import Tx

EARNING = frozenset({ExtensionStatus.APPROVED, ExtensionStatus.AUTO_APPROVED})
CAUSES = {
    ExtensionStatus.REJECTED: CauseTag.EXTENSION_REJECTED,
    ExtensionStatus.SAFEGUARD_TRIPPED: CauseTag.EXTENSION_SAFEGUARD_TRIPPED,
}


def extendable(session: Session | None, *, now: dt.datetime) -> bool:
    """Whether a session runs, or has run out and is not over: by the clock, not by when somebody noticed."""
    if session is None or session.status not in HELD or session.expires_at is None:
        return False
    return now < session.expires_at + session_rules.GRACE


async def mitra_can_answer(tx: Tx, session: Session) -> bool:
    """Return whether the session's mitra is active: one who is not can't sign in."""
    return session.mitra_id is not None and await mitras.is_active(tx, session.mitra_id)


async def ask(tx: Tx, session: Session, payment: PaymentRequest, *, answer_by: dt.datetime) -> Extension:
    """Ask the mitra for a confirmed payment; trip the extension when the session is over or the mitra can't answer.

    The payment is locked by the caller, and no extension was asked for it.
    """
    possible = extendable(session, now=tx.now) and await mitra_can_answer(tx, session)
    extension = await extensions.create(
        tx,
        session_id=session.id,
        payment_request_id=payment.id,
        minutes=payment.duration_minutes,
        price=payment.amount,
        status=ExtensionStatus.PENDING if possible else ExtensionStatus.SAFEGUARD_TRIPPED,
        answer_by=answer_by if possible else tx.now,
    )
    if possible:
        await announce.extension_requested(tx, session, extension)
        announce.deadline(tx, answer_by)
    else:
        await money.fail(tx, payment, CauseTag.EXTENSION_SAFEGUARD_TRIPPED)
        await announce.extension_resolved(tx, session, extension, to_mitra=False)
    return extension


async def resolve(tx: Tx, session: Session, extension: Extension, status: ExtensionStatus) -> Extension:
    """Move a pending extension to its end, with the money and, for a yes, the session's new end.

    It is tripped instead when the session is over or the mitra can't answer. Raises ExtensionResolved.
    """
    check_edge(EDGES, ExtensionStatus.PENDING, status)
    if (status in EARNING and session.status not in HELD) or not await mitra_can_answer(tx, session):
        status = ExtensionStatus.SAFEGUARD_TRIPPED
    payment = await payments.lock(tx, extension.payment_request_id)
    resolved = await extensions.resolve(tx, extension.id, status)
    if resolved is None:
        raise ExtensionResolved
    assert payment is not None
    if status in EARNING:
        await _prolong(tx, session, resolved)
        await money.consume(tx, payment, session_id=session.id)
        await announce.session_event(tx, [session.id], "session_resumed", extension_id=resolved.id)
    else:
        await money.fail(tx, payment, CAUSES[status])
        announce.deadline(tx, session.grace_ends_at)
    await announce.extension_resolved(tx, session, resolved, to_mitra=True)
    return resolved


async def _prolong(tx: Tx, session: Session, extension: Extension) -> None:
    """The minutes are added while the session runs, and start now after its end; the warning is armed anew."""
    assert session.expires_at is not None
    minutes = extension.requested_duration_minutes
    expires_at = rules.new_end(expires_at=session.expires_at, minutes=minutes, now=tx.now)
    warn_at = session_rules.warning_due(expires_at=expires_at, set_at=tx.now)
    await sessions.prolong(
        tx, session.id, before=session.status, expires_at=expires_at, warn_at=warn_at, minutes=minutes
    )
    announce.deadline(tx, warn_at or expires_at)


async def trip(tx: Tx, session: Session) -> None:
    """End what is pending of a session's extension, paid or not: the session enters closing, or the mitra can't answer."""
    pending = await extensions.pending_of(tx, session.id)
    if pending is not None:
        await resolve(tx, session, pending, ExtensionStatus.SAFEGUARD_TRIPPED)
    await invoices.abandon_extensions(tx, [session.id])
