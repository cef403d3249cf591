"""Receipts of completed sessions: signed soon after the completion, at the latest when a party asks
(docs/fairness.md#receipt).

The transaction that completes a session makes the row of its receipt, so no completion is without one. Signing it there
would keep the session locked while its chat is read. So the jobs process signs it: it computes the digest in bounded
statements, and continues where a process that died has stopped.
"""

import datetime as dt
import math

from core.base.actor import Actor
from core.base.clock import monotonic, real_sleep
from core.base.errors import NotFound, Unavailable
from core.runtime.container import Runtime
from core.sessions import own_session
from core.sessions import store as sessions
from core.sessions.messages import digests
from core.sessions.receipts import sign, signing
from core.sessions.receipts import store as receipts
from core.sessions.receipts.rules import ReceiptNotReady, SessionNotCompleted, SignedReceipt
from core.sessions.receipts.store import Unsigned
from core.sessions.states import SessionStatus
from core.sessions.store import Session
from core.telemetry import logs

AT_ONCE = 100  # receipts in one read
SETTLED_S = 5.0  # real seconds: the processes have then recorded an outage that ended before the completion
WAIT_S = 3.0  # real seconds that a party waits for the outages, or for the digest of a very long chat

log = logs.get("receipts")


async def sign_due(runtime: Runtime) -> None:
    """Sweep: sign the receipts of completed sessions."""
    before = runtime.now() - dt.timedelta(seconds=SETTLED_S * runtime.clock.scale)
    after: Unsigned | None = None
    while True:
        found = await receipts.unsigned(runtime.db, before=before, after=after, limit=AT_ONCE)
        for one in found:
            try:
                await _sign(runtime, one.session_id)
            except Unavailable:
                raise
            except Exception:  # it must not hold up the others
                log.exception("signing a receipt failed", session_id=one.session_id)
        if len(found) < AT_ONCE:
            return
        after = found[-1]


async def of_party(runtime: Runtime, actor: Actor, *, session_id: str) -> SignedReceipt:
    """Return the receipt of a session of the caller.

    Raises NotFound, also if the session was completed before there were receipts, SessionNotCompleted, ReceiptNotReady,
    Unavailable.
    """
    session, _ = await own_session.get(runtime.db, actor, session_id=session_id)
    return await _receipt(runtime, session)


async def of_session(runtime: Runtime, session_id: str) -> SignedReceipt:
    """Return the receipt of any session, for operators. Raises what `of_party` raises."""
    session = await sessions.get(runtime.db, session_id)
    if session is None:
        raise NotFound
    return await _receipt(runtime, session)


async def chat_digest(runtime: Runtime, session_id: str, *, up_to: int | None) -> tuple[int, str | None] | None:
    """Return (a seq, the digest of a session's chat up to it), for operators. Without `up_to`, the last message's seq.

    The digest is None if the texts were removed before it was computed, or if the message is missing although a later
    one was stored. Return None if the session never had such a message.
    """
    session = await sessions.get(runtime.db, session_id)
    if session is None or (up_to or 0) > session.last_seq:
        return None
    seq = session.last_seq if up_to is None else up_to
    return seq, await _digest(runtime, session_id, up_to=seq, until=None)


async def _receipt(runtime: Runtime, session: Session) -> SignedReceipt:
    if session.status is not SessionStatus.COMPLETED:
        raise SessionNotCompleted
    completed_at, signed = await receipts.get(runtime.db, session.id)
    if completed_at is not None and signed is None:
        until = monotonic() + WAIT_S
        await _settle(runtime, completed_at)
        await _sign(runtime, session.id, until=until)
        _, signed = await receipts.get(runtime.db, session.id)
    if signed is None:
        raise NotFound
    return signed


async def _settle(runtime: Runtime, completed_at: dt.datetime) -> None:
    """Wait until a session was completed SETTLED_S ago.

    Raises ReceiptNotReady at once if that takes longer than WAIT_S.
    """
    left_s = SETTLED_S - (runtime.now() - completed_at).total_seconds() / runtime.clock.scale
    if left_s > WAIT_S:
        raise ReceiptNotReady(retry_after_seconds=math.ceil(left_s))
    if left_s > 0:
        await real_sleep(left_s)


async def _sign(runtime: Runtime, session_id: str, *, until: float | None = None) -> None:
    """Sign a receipt. Raises ReceiptNotReady if its digest is not computed `until` then (monotonic seconds)."""
    session = await sessions.get(runtime.db, session_id)
    assert session is not None
    digest = await _digest(runtime, session_id, up_to=session.last_seq, until=until)
    async with runtime.transaction() as tx:
        keys = signing.keys_of(runtime.settings.receipt_signing_keys)
        await sign.sign(tx, session_id, digest=digest, keys=keys, scale=runtime.clock.scale)


async def _digest(runtime: Runtime, session_id: str, *, up_to: int, until: float | None) -> str | None:
    """Return the digest of a chat up to its message `up_to`; None if its texts were removed or it is missing."""
    while True:
        found = await digests.advance(runtime.db, session_id, up_to=up_to)
        if found.digest is None or found.seq == up_to:
            return found.digest
        if not found.more:
            log.error("a chat has no digest: messages are missing", session_id=session_id)
            return None
        if until is not None and monotonic() >= until:
            raise ReceiptNotReady
