"""How a search ends without a mitra: one place for every cause."""

from core.pairing import store as pairing
from core.pairing.rules import CauseTag, Response
from core.payments import store as payments
from core.sessions import store as sessions
from core.sessions.states import SessionStatus
from core.sessions.store import Session
from core.steps import announce, money
from core.storage.database import Tx


async def give_up(tx: Tx, session: Session, cause: CauseTag) -> None:
    """searching -> failed (cancelled, if the customer left), its payment -> failed_pairing, everybody asked is told.

    The session is locked by the caller and is searching.
    """
    left = cause is CauseTag.CUSTOMER_CANCELLED
    await sessions.end_search(tx, session.id, SessionStatus.CANCELLED if left else SessionStatus.FAILED)
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
