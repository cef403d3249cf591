"""A confirmed payment becomes a search (specification, Core rules 4; contract 5). Safe to run twice: one session a request."""

from core.base import ids
from core.mitras import rules as mitra_rules
from core.mitras import store as mitras
from core.pairing import rules
from core.pairing import store as pairing
from core.pairing.rules import CauseTag
from core.payments import store as payments
from core.payments.states import PaymentStatus
from core.payments.store import PaymentRequest
from core.runtime import Runtime
from core.sessions import store as sessions
from core.sessions.states import FINAL, SessionStatus
from core.sessions.store import Session
from core.steps import announce, search
from core.steps.freedom import freedom
from core.storage.database import Tx


async def start(runtime: Runtime, *, payment_request_id: str) -> None:
    """Create the searching session and ask mitras, unless that has happened."""
    async with runtime.transaction() as tx:
        asked_for = await payments.get(tx, payment_request_id)
        if asked_for is not None and asked_for.targeted_mitra_id is not None:
            # Mitras are locked before payments, everywhere. Her going offline waits for us, and then finds this request.
            await mitras.lock(tx, asked_for.targeted_mitra_id)
        payment = await payments.lock(tx, payment_request_id)
        if payment is None or payment.status is not PaymentStatus.CONFIRMED or payment.is_extension:
            return
        earlier = await sessions.of_payment(tx, payment.id)
        if earlier is not None and earlier.status not in (FINAL - {SessionStatus.COMPLETED}):
            return
        session = _session(runtime, tx, payment)
        await sessions.create(tx, session, is_first_session_discount=payment.is_first_session_discount)
        await announce.pairing_status(
            tx,
            customer_id=session.customer_id,
            payment_request_id=payment.id,
            session_id=session.id,
            status="searching",
        )
        await _ask(runtime, tx, session)


def _session(runtime: Runtime, tx: Tx, payment: PaymentRequest) -> Session:
    search_ends_at = tx.now + runtime.config.minutes("searching_timeout_minutes")
    targeted = payment.targeted_mitra_id is not None
    length = "returning_chat_confirmation_timeout_seconds" if targeted else "pairing_blast_timeout_seconds"
    return Session(
        id=ids.new_id(),
        customer_id=payment.customer_id,
        mitra_id=None,
        payment_request_id=payment.id,
        mode=payment.mode,
        status=SessionStatus.SEARCHING,
        created_at=tx.now,
        paired_at=None,
        ended_at=None,
        ended_by=None,
        duration_minutes=payment.duration_minutes,
        price=payment.amount,
        expires_at=None,
        topics=payment.topics,
        topic_sensitivity="regular",
        targeted_mitra_id=payment.targeted_mitra_id,
        round_number=1,
        round_ends_at=rules.round_ends(
            now=tx.now, round_length=runtime.config.seconds(length), search_ends_at=search_ends_at
        ),
        search_ends_at=search_ends_at,
        warn_at=None,
        grace_ends_at=None,
        last_seq=0,
    )


async def _ask(runtime: Runtime, tx: Tx, session: Session) -> None:
    limits = freedom(runtime.config)
    only: list[str] | None = None
    if session.targeted_mitra_id is not None:
        only = [session.targeted_mitra_id]
        presence = await mitras.presence(tx, session.targeted_mitra_id)
        try:
            mitra_rules.may_take(presence, limits, now=tx.now)
        except (mitra_rules.MitraOffline, mitra_rules.MitraAtCapacity):
            await search.give_up(tx, session, CauseTag.TARGETED_MITRA_OFFLINE)
            return
    assert session.round_ends_at is not None
    asked = await pairing.invite(tx, session.id, limits, round_number=1, answer_by=session.round_ends_at, only=only)
    await announce.chat_requests(tx, session.id, asked)
    announce.deadline(tx, session.round_ends_at)
