"""Begin the search of a confirmed payment (docs/product.md#pairing). Safe to run twice: a request has one session."""

from core.accounts.customers import store as customers
from core.pairing import search
from core.pairing.rules import WHEN_LIVE_SESSION
from core.payments import store as payments
from core.payments.failures.causes import SubCause, Why
from core.payments.states import PaymentStatus
from core.runtime.container import Runtime
from core.sessions import store as sessions
from core.sessions.states import UNPAIRED


async def start(runtime: Runtime, *, payment_request_id: str) -> None:
    """Create the searching session and ask mitras, unless that was done.

    The customer may have joined an account with a live session after the request was confirmed. An account has one live
    session at most, so then the payment fails, and an operator gives the money back.
    """
    async with runtime.transaction() as tx:
        asked_for = await payments.get(tx, payment_request_id)
        if asked_for is None:
            return
        account = list(await customers.lock_account(tx, asked_for.customer_id))
        if asked_for.targeted_mitra_id is not None:
            await search.hold_target(tx, asked_for)
        payment = await payments.lock(tx, payment_request_id)
        if payment is None or payment.status is not PaymentStatus.CONFIRMED or payment.is_extension:
            return
        earlier = await sessions.of_payment(tx, payment.id)
        if earlier is not None and earlier.status not in UNPAIRED:
            return
        in_progress = await payments.in_progress(tx, account, but=payment.id)
        if in_progress is None or in_progress.session_id is None:
            await search.begin(runtime, tx, payment)
            return
        why = Why(WHEN_LIVE_SESSION, SubCause.LIVE_SESSION, in_progress.payment_request_id)
        await search.fail_unstarted(tx, payment, why)
