"""Begin a search, ask more mitras, and end a search without a mitra (docs/product.md#pairing).

The callers choose the cause tag of an end. docs/product.md#cause-tags lists them.
"""

from core.base import ids
from core.base.field_types import SessionId
from core.mitras import store as mitras
from core.mitras.rules import AvailabilityPolicy, MitraAtCapacity, MitraOffline
from core.pairing import rules
from core.pairing import store as pairing
from core.pairing.rules import Response
from core.pairing_failures.causes import CauseTag
from core.payments import store as payments
from core.payments.store import PaymentRequest
from core.runtime import Runtime
from core.sessions import store as sessions
from core.sessions import transitions
from core.sessions.sensitivity import Sensitivity
from core.sessions.states import SessionStatus
from core.sessions.store import Session
from core.steps import announce, money
from core.steps.availability import availability_policy, check_mitra
from core.storage.database import Tx


class SearchBegan(Exception):
    """The search began while the caller waited for the payment's lock.

    The caller must start again, to take the locks in the right order (docs/architecture.md#lock-order).
    """


async def still_newest(tx: Tx, payment_request_id: str, known: str | None) -> None:
    """Check that a payment has no newer session than `known`. Raises SearchBegan.

    Lock order: session before payment. While a payment has no session, its lock keeps other transactions from creating
    one. The caller must hold the payment's lock.
    """
    newest = await sessions.of_payment(tx, payment_request_id)
    if newest is not None and newest.id != known:
        raise SearchBegan


async def hold_target(tx: Tx, payment: PaymentRequest) -> None:
    """Lock the mitra of a targeted request.

    Lock order: mitra before payment. A concurrent go-offline waits for this transaction and then sees the invitation.
    """
    if payment.targeted_mitra_id is not None:
        await mitras.lock(tx, payment.targeted_mitra_id)


async def begin(runtime: Runtime, tx: Tx, payment: PaymentRequest) -> Session:
    """Create the searching session of a confirmed payment and ask mitras. Return the session.

    If the mitra of a targeted request is not eligible, the search fails at once. The caller must hold the payment's
    lock and have checked that it has no session, except failed or cancelled ones.
    """
    session = _session(runtime, tx, payment)
    await transitions.create(tx, session, is_first_session_discount=payment.is_first_session_discount)
    limits = availability_policy(runtime.config)
    if not await _target_is_free(tx, session, limits):
        await _announce_search(tx, session, asked=0)
        await give_up(tx, session, CauseTag.TARGETED_MITRA_OFFLINE)
        return session
    assert session.round_ends_at is not None
    only = None if session.targeted_mitra_id is None else [session.targeted_mitra_id]
    invited = await pairing.invite(tx, session.id, limits, round_number=1, answer_by=session.round_ends_at, only=only)
    await _announce_search(tx, session, asked=len(invited.mitra_ids))
    await announce.chat_requests(tx, session.id, invited.mitra_ids)
    announce.deadline(tx, session.round_ends_at)
    return session


async def _announce_search(tx: Tx, session: Session, *, asked: int) -> None:
    await announce.pairing_status(
        tx,
        customer_id=session.customer_id,
        payment_request_id=session.payment_request_id,
        session_id=session.id,
        status="searching",
        asked=asked,
    )


def _session(runtime: Runtime, tx: Tx, payment: PaymentRequest) -> Session:
    search_ends_at = tx.now + runtime.config.minutes("searching_timeout_minutes")
    targeted = payment.targeted_mitra_id is not None
    length = "returning_chat_confirmation_timeout_seconds" if targeted else "pairing_blast_timeout_seconds"
    return Session(
        id=SessionId(ids.new_id()),
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
        topic_sensitivity=Sensitivity.REGULAR,
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


async def _target_is_free(tx: Tx, session: Session, limits: AvailabilityPolicy) -> bool:
    """Return whether the mitra of a targeted search is eligible. True for a blast."""
    if session.targeted_mitra_id is None:
        return True
    try:
        await check_mitra(tx, session.targeted_mitra_id, limits)
    except (MitraOffline, MitraAtCapacity):
        return False
    return True


async def ask_more(tx: Tx, session: Session, limits: AvailabilityPolicy, *, only: list[str] | None = None) -> list[str]:
    """Ask every eligible mitra in a running search (only those in `only`, if given). Return their ids.

    The caller must hold the session's lock, and `session` must have the number and the end of its present round. The
    customer is sent the larger number of asked mitras REPEAT_AFTER later.
    """
    assert session.round_ends_at is not None
    invited = await pairing.invite(
        tx, session.id, limits, round_number=session.round_number, answer_by=session.round_ends_at, only=only
    )
    await announce.chat_requests(tx, session.id, invited.mitra_ids)
    if invited.any_new:
        repeat_at = tx.now + rules.REPEAT_AFTER
        await sessions.plan_repeat(tx, session.id, at=repeat_at)
        announce.deadline(tx, repeat_at)
    return invited.mitra_ids


async def give_up(tx: Tx, session: Session, cause: CauseTag) -> None:
    """End a search without a mitra: the session becomes `failed`, or `cancelled` if the customer cancelled.

    Its payment becomes `failed_pairing`, and the customer and the mitras with open invitations are notified. The caller
    must hold the session's lock, and the session must be searching.
    """
    left = cause is CauseTag.CUSTOMER_CANCELLED
    await transitions.end_search(tx, session.id, SessionStatus.CANCELLED if left else SessionStatus.FAILED)
    asked = await pairing.close_open(tx, session.id, Response.CANCELLED if left else Response.IGNORED)
    await announce.requests_closed(
        tx,
        session.id,
        asked,
        "cancelled" if left else "timeout",
        topic_sensitivity=session.topic_sensitivity,
    )
    if session.payment_request_id is not None:
        payment = await payments.lock(tx, session.payment_request_id)
        assert payment is not None
        await money.fail(tx, payment, cause)
    await announce.pairing_status(
        tx,
        customer_id=session.customer_id,
        payment_request_id=session.payment_request_id,
        session_id=session.id,
        status="cancelled" if left else "failed",
        topic_sensitivity=session.topic_sensitivity,
        cause_tag=cause.value,
    )
