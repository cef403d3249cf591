"""Fall back from a targeted request to a blast, or start the pairing of a paid request by an explicit call.

docs/product.md#fallback-to-a-blast has the rules.
"""

from core.accounts.customers import block_account, erasing
from core.accounts.customers import store as customers
from core.base.actor import Actor
from core.base.errors import NotFound, Unauthenticated
from core.base.field_types import MitraId
from core.events.signals import PaymentConfirmed
from core.pairing import announce, invitations, rules, search
from core.pairing.rules import Response
from core.payments import money
from core.payments import store as payments
from core.payments.failures import store as failures
from core.payments.failures.rules import FailureActioned, NotTargeted
from core.payments.failures.store import Live
from core.payments.pricing import store as pricing
from core.payments.pricing.rules import DiscountNotEligible
from core.payments.refunds import store as refunds
from core.payments.rules import PaymentNotConfirmed, SessionInProgress
from core.payments.states import PaymentStatus
from core.payments.store import PaymentRequest
from core.runtime.container import Runtime
from core.sessions import store as sessions
from core.sessions import views
from core.sessions.states import UNPAIRED, SessionStatus
from core.sessions.store import Session
from core.sessions.views import SessionView
from core.storage.transaction import Tx


async def fall_back(runtime: Runtime, actor: Actor, *, payment_request_id: str) -> None:
    """Turn a targeted request into a blast. An open search goes on as a blast; after a failure a new search begins.

    Raises NotFound, AccountBlocked, NotTargeted, FailureActioned, SessionInProgress, DiscountNotEligible.
    """
    while True:
        try:
            async with runtime.transaction() as tx:
                await _fall_back(runtime, tx, actor, payment_request_id)
            return
        except search.SearchBegan:
            continue  # start again; a request has one search at a time, so this loop ends


async def _fall_back(runtime: Runtime, tx: Tx, actor: Actor, payment_request_id: str) -> None:
    account = list(await customers.lock_account(tx, actor.user_id))
    if await erasing.is_erased(tx, actor.user_id):  # within a second of the erasure, before its token is refused
        raise Unauthenticated
    await block_account.check(tx, actor.user_id)
    session = await sessions.of_payment(tx, payment_request_id)
    if session is not None:
        session = await sessions.lock(tx, session.id)
    payment = await payments.lock(tx, payment_request_id)
    if payment is None or payment.customer_id not in account:
        raise NotFound
    await search.still_newest(tx, payment.id, session.id if session is not None else None)
    if payment.status is PaymentStatus.FAILED_PAIRING:
        failure = await lock_failure(tx, payment)
        await begin_again(runtime, tx, actor, payment, failure, account)
    elif payment.status is PaymentStatus.CONFIRMED and payment.targeted_mitra_id is not None:
        await payments.untarget(tx, payment.id)
        if session is not None and session.status is SessionStatus.SEARCHING:
            await _go_on(runtime, tx, session)
        else:  # just paid: its search begins as a blast
            tx.emit(PaymentConfirmed(payment_request_id=payment.id, is_extension=False))
    else:
        raise NotTargeted


async def _go_on(runtime: Runtime, tx: Tx, session: Session) -> None:
    """Cancel the open invitation and invite all eligible mitras to the same session, in its next round."""
    asked = await invitations.end_round(tx, session.id, Response.CANCELLED)
    await announce.requests_closed(tx, session, asked, "cancelled")
    present = search.running(session)
    following = rules.next_round(present, search.limits(runtime.config), now=tx.now)
    await invitations.begin_round(tx, session.id, present, following, runtime.config)


async def lock_failure(tx: Tx, payment: PaymentRequest) -> Live:
    """Lock the failure of a targeted request whose money may be used again, and return it.

    The caller must hold the payment's lock. Raises NotTargeted, FailureActioned.
    """
    failure = await failures.lock_live(tx, payment.id)
    if failure is None or not failure.cause_tag.cause.may_fall_back:
        raise NotTargeted
    refund = await refunds.of_failure(tx, failure.id)
    if failure.operator_action is not None or (refund is not None and refund.bars_another_try):
        raise FailureActioned
    return failure


async def begin_again(
    runtime: Runtime,
    tx: Tx,
    actor: Actor,
    payment: PaymentRequest,
    failure: Live,
    account: list[str],
    *,
    targeted_mitra_id: MitraId | None = None,
) -> None:
    """Confirm a request again whose failure is locked, supersede the failure and begin a new search.

    The search asks the mitra `targeted_mitra_id`, whose lock the caller must hold; None: all mitras. Raises
    SessionInProgress, DiscountNotEligible.
    """
    in_progress = await payments.in_progress(tx, account, but=payment.id)
    if in_progress is not None:
        raise SessionInProgress(details=in_progress.details)
    if payment.is_first_session_discount:
        past = await pricing.past_of(tx, account, but_pending=True, but=payment.id)
        if past.ever_paired or past.other_discounted_request:
            raise DiscountNotEligible
    await money.abandon_pending(tx, account, by=actor)
    again = await money.confirm_again(tx, payment, failure_id=failure.id, targeted_mitra_id=targeted_mitra_id)
    await search.begin(runtime, tx, again)


async def start_by_hand(runtime: Runtime, actor: Actor, *, payment_request_id: str) -> SessionView:
    """Start the pairing of a confirmed request, or return the session that it has. Older clients use this.

    Raises NotFound, PaymentNotConfirmed, SessionInProgress, AccountBlocked.
    """
    async with runtime.transaction() as tx:
        account = await customers.lock_account(tx, actor.user_id)
        found = await payments.get(tx, payment_request_id)
        if found is None or found.customer_id not in account:
            raise NotFound
        if found.targeted_mitra_id is not None:
            await search.hold_target(tx, found)
        payment = await payments.lock(tx, payment_request_id)
        assert payment is not None
        session = await sessions.of_payment(tx, payment.id)
        if session is None or session.status in UNPAIRED:
            if payment.status is not PaymentStatus.CONFIRMED or payment.is_extension:
                raise PaymentNotConfirmed
            await block_account.check(tx, actor.user_id)
            in_progress = await payments.in_progress(tx, list(account), but=payment.id)
            if in_progress is not None and in_progress.session_id is not None:
                raise SessionInProgress(details=in_progress.details)
            session = await search.begin(runtime, tx, payment)
        view = await views.one_of(tx, session.id, party_ids=list(account), side=actor.user_type)
    assert view is not None
    return view
