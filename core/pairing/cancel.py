"""The customer cancels a request or its search, at any time before a mitra accepts (docs/product.md#cancelling)."""

from core.accounts.customers import store as customers
from core.base.actor import Actor
from core.base.errors import NotFound
from core.pairing import search
from core.pairing.rules import WHEN_CANCELLED, SessionNotSearching
from core.payments import money
from core.payments import store as payments
from core.payments.failures.causes import Why
from core.payments.states import PaymentStatus
from core.payments.store import PaymentRequest
from core.runtime.container import Runtime
from core.sessions import store as sessions
from core.sessions.states import SessionStatus
from core.storage.transaction import Tx


async def cancel(runtime: Runtime, actor: Actor, *, payment_request_id: str) -> None:
    """Cancel a request: a pending one is abandoned, a paid one fails. If it has ended already, nothing changes.

    Raises NotFound; SessionNotSearching, with the session's id, after an acceptance or for an extension.
    """
    while True:
        try:
            async with runtime.transaction() as tx:
                await _cancel(tx, actor, payment_request_id)
            return
        except search.SearchBegan:
            continue  # start again; a request has one search at a time, so this loop ends


async def _cancel(tx: Tx, actor: Actor, payment_request_id: str) -> None:
    await customers.lock_account(tx, actor.user_id)
    payment = await payments.get(tx, payment_request_id)
    if payment is None or not actor.owns(payment.customer_id):
        raise NotFound
    if payment.is_extension:
        raise SessionNotSearching(details={"session_id": payment.extends_session_id})
    # Lock order: session before payment. Until there is a session, the payment's lock keeps others from creating one.
    session = await sessions.of_payment(tx, payment.id)
    if session is not None:
        session = await sessions.lock(tx, session.id)
    if session is not None and session.status is SessionStatus.SEARCHING:
        await search.give_up(tx, session, WHEN_CANCELLED)
    elif session is not None and session.mitra_id is not None:
        raise SessionNotSearching(details={"session_id": session.id})
    else:
        locked = await payments.lock(tx, payment.id)
        assert locked is not None
        await _without_session(tx, actor, locked, before=session.id if session else None)


async def _without_session(tx: Tx, actor: Actor, payment: PaymentRequest, *, before: str | None) -> None:
    """Cancel a locked payment that has no searching session.

    `before` is the id of its newest session (ended, or None) as read earlier. Raises SearchBegan if there is a newer
    one.
    """
    await search.still_newest(tx, payment.id, before)
    if payment.status is PaymentStatus.PENDING:
        await money.abandon(tx, payment, by=actor)
    elif payment.status is PaymentStatus.CONFIRMED:
        await search.fail_unstarted(tx, payment, Why(WHEN_CANCELLED))
