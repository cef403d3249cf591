"""Ask the mitra for a paid extension (docs/product.md#extensions). Safe to run twice: a payment has one extension."""

from core.base.actor import Actor
from core.base.errors import NotFound
from core.idempotency import run as run_once
from core.idempotency.rules import KeyedRequest
from core.payments import store as payments
from core.payments.rules import PaymentNotConfirmed
from core.payments.states import PaymentStatus
from core.runtime.container import Runtime
from core.sessions import own_session
from core.sessions import store as sessions
from core.sessions.extensions import extend
from core.sessions.extensions import store as extensions
from core.sessions.extensions.store import Extension
from core.sessions.extensions.views import ExtensionView, view_of
from core.sessions.store import Session
from core.storage.transaction import Tx


async def ask(runtime: Runtime, *, payment_request_id: str) -> None:
    """Ask the mitra for a confirmed extension, unless that was done. If its session is over, trip its safeguard."""
    async with runtime.transaction() as tx:
        payment = await payments.get(tx, payment_request_id)
        if payment is not None and payment.extends_session_id is not None:
            session = await sessions.lock(tx, payment.extends_session_id)
            if session is not None:
                await _ask(runtime, tx, session, payment_request_id)


async def ask_explicitly(
    runtime: Runtime, actor: Actor, *, session_id: str, payment_request_id: str, key: KeyedRequest | None = None
) -> ExtensionView:
    """Ask for the caller's confirmed extension payment of this session.

    If that was done, return the extension as it is. A retry with the same `key` gets the first answer. Raises NotFound,
    PaymentNotConfirmed, IdempotencyMismatch, IdempotencyInFlight.
    """
    async with run_once.transaction(runtime, key) as idempotent:
        if (before := idempotent.repeated(ExtensionView)) is not None:
            return before
        tx = idempotent.tx
        session, _ = await own_session.lock(tx, actor, session_id=session_id)
        payment = await payments.get(tx, payment_request_id)
        if payment is None or payment.extends_session_id != session_id:
            raise NotFound
        extension = await _ask(runtime, tx, session, payment_request_id)
        if extension is None:
            raise PaymentNotConfirmed
        view = view_of(extension, topic_sensitivity=session.topic_sensitivity)
        await idempotent.keep(view, http_status=200)
    return view


async def _ask(runtime: Runtime, tx: Tx, session: Session, payment_request_id: str) -> Extension | None:
    """Return the payment's extension, created if there was none. None if the payment is not confirmed."""
    asked = await extensions.of_payment(tx, payment_request_id)
    if asked is not None:
        return asked
    payment = await payments.lock(tx, payment_request_id)
    if payment is None or payment.status is not PaymentStatus.CONFIRMED:
        return None
    answer_by = tx.now + runtime.config.seconds("extension_timeout_seconds")
    return await extend.ask(runtime, tx, session, payment, answer_by=answer_by)
