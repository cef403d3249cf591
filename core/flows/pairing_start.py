"""A confirmed payment becomes a search (specification, Core rules 4; contract 5). Safe to run twice: one session a request."""

from core.payments import store as payments
from core.payments.states import PaymentStatus
from core.runtime import Runtime
from core.sessions import store as sessions
from core.sessions.states import FINAL, SessionStatus
from core.steps import search


async def start(runtime: Runtime, *, payment_request_id: str) -> None:
    """Create the searching session and ask mitras, unless that has happened."""
    async with runtime.transaction() as tx:
        asked_for = await payments.get(tx, payment_request_id)
        if asked_for is not None and asked_for.targeted_mitra_id is not None:
            await search.hold_target(tx, asked_for)
        payment = await payments.lock(tx, payment_request_id)
        if payment is None or payment.status is not PaymentStatus.CONFIRMED or payment.is_extension:
            return
        earlier = await sessions.of_payment(tx, payment.id)
        if earlier is not None and earlier.status not in (FINAL - {SessionStatus.COMPLETED}):
            return
        await search.begin(runtime, tx, payment)
