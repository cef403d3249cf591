"""Begin a search, and end a search without a mitra (docs/product.md#pairing).

core/pairing/rules.py decides when a round ends, and with which cause a search does. core/pairing/invitations.py asks
the mitras.
"""

from core.accounts.mitras import store as mitras
from core.accounts.mitras.rules import AvailabilityPolicy, MitraAtCapacity, MitraOffline, availability_policy
from core.accounts.mitras.store import check_mitra
from core.base import ids
from core.base.field_types import SessionId
from core.config.cache import Config
from core.deliveries import events
from core.pairing import announce, invitations, round_records, rules, trace_parents
from core.pairing import store as pairing
from core.pairing.events import PairingStatus
from core.pairing.rules import InvitationTally, Response, Round, Search, SearchLimits, Wave
from core.payments import money
from core.payments import store as payments
from core.payments.failures.causes import CauseTag, SubCause, Why
from core.payments.store import PaymentRequest
from core.runtime.container import Runtime
from core.sessions import store as sessions
from core.sessions import transitions
from core.sessions.sensitivity import Sensitivity
from core.sessions.states import SessionStatus
from core.sessions.store import Session
from core.storage.transaction import Tx
from core.telemetry import metrics

metrics.start_at_zero(metrics.SESSIONS_ENDED, [SessionStatus.FAILED], set(CauseTag) - {rules.WHEN_CANCELLED})


def limits(config: Config) -> SearchLimits:
    """Return the limits of searches as they are configured now."""
    return SearchLimits(
        search=config.minutes("searching_timeout_minutes"),
        blast_round=config.seconds("pairing_blast_timeout_seconds"),
        targeted_round=config.seconds("returning_chat_confirmation_timeout_seconds"),
    )


def running(session: Session) -> Search:
    """Return a searching session as the rules of pairing see it."""
    assert session.round_ends_at is not None
    assert session.search_ends_at is not None
    return Search(
        is_targeted=session.targeted_mitra_id is not None,
        round=Round(number=session.round_number, ends_at=session.round_ends_at),
        wave=Wave(number=session.wave_number, ends_at=session.wave_ends_at),
        ends_at=session.search_ends_at,
    )


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
    await trace_parents.keep_of_session(tx, session.id)
    search, policy = running(session), availability_policy(runtime.config)
    await round_records.begin(tx, [session.id], policy, target_id=session.targeted_mitra_id)
    cause = None if await _target_is_available(tx, session, policy) else rules.after_absence(search)
    if cause is not None:
        await announce.search_status(tx, session, "searching", asked=0)
        await give_up(tx, session, cause)
        return session
    only = None if session.targeted_mitra_id is None else [session.targeted_mitra_id]
    invited = await invitations.invite(tx, session.id, search, runtime.config, only=only)
    await announce.search_status(tx, session, "searching", asked=len(invited.mitra_ids))
    await announce.chat_requests(tx, session.id, invited.mitra_ids)
    events.deadline(tx, search.round.ends_at)
    return session


def _session(runtime: Runtime, tx: Tx, payment: PaymentRequest) -> Session:
    search = rules.begin_search(limits(runtime.config), is_targeted=payment.targeted_mitra_id is not None, now=tx.now)
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
        round_number=search.round.number,
        round_ends_at=search.round.ends_at,
        search_ends_at=search.ends_at,
        wave_number=search.wave.number,
        wave_ends_at=search.wave.ends_at,
        warn_at=None,
        grace_ends_at=None,
        last_seq=0,
    )


async def _target_is_available(tx: Tx, session: Session, policy: AvailabilityPolicy) -> bool:
    """Return whether the mitra of a targeted search is available. True for a blast."""
    if session.targeted_mitra_id is None:
        return True
    try:
        await check_mitra(tx, session.targeted_mitra_id, policy, customer_id=session.customer_id)
    except (MitraOffline, MitraAtCapacity):
        return False
    return True


async def count(tx: Tx, session: Session, policy: AvailabilityPolicy) -> tuple[InvitationTally, bool]:
    """Return the tally of a running search, and whether an eligible mitra is left.

    The second is read only if it decides, and is True otherwise.
    """
    tally = await pairing.tally(tx, session.id)
    if not rules.depends_on_eligible(running(session), tally):
        return tally, True
    return tally, await pairing.anyone_eligible(tx, session.id, policy, now=tx.now)


async def give_up(tx: Tx, session: Session, cause: CauseTag, sub_cause: SubCause | None = None) -> None:
    """End a search without a mitra: the session becomes `failed`, or `cancelled` if the customer or an operator did it.

    Its payment becomes `failed_pairing`, and the customer and the mitras with open invitations are notified. The caller
    must hold the session's lock, and the session must be searching.
    """
    left = cause is rules.WHEN_CANCELLED
    status = SessionStatus.CANCELLED if left else SessionStatus.FAILED
    await transitions.end_search(tx, session.id, status)
    tx.count(metrics.SESSIONS_ENDED.labels(status.value, cause.value))
    asked = await invitations.end_round(tx, session.id, Response.CANCELLED if left else Response.IGNORED)
    await announce.requests_closed(tx, session, asked, "cancelled" if left else "timeout")
    if session.payment_request_id is not None:
        payment = await payments.lock(tx, session.payment_request_id)
        assert payment is not None
        await money.fail(tx, payment, Why(cause, sub_cause))
    await announce.search_status(tx, session, "cancelled" if left else "failed", cause_tag=cause)


async def fail_unstarted(tx: Tx, payment: PaymentRequest, why: Why) -> None:
    """Fail a confirmed payment that has no running search, and notify the customer.

    The caller must hold the payment's lock.
    """
    await money.fail(tx, payment, why)
    event = PairingStatus(
        payment_request_id=payment.id,
        session_id=None,
        status="cancelled" if why.cause is rules.WHEN_CANCELLED else "failed",
        topic_sensitivity=Sensitivity.REGULAR,
        cause_tag=why.cause,
    )
    await events.announce(tx, event, [payment.customer_id])
