"""Advance running searches (docs/product.md#rounds).

Mitras who become eligible are invited, rounds end and begin, and a search that can't succeed fails.
"""

import datetime as dt

import attrs

from core.base import logs
from core.base.errors import Unavailable
from core.mitras.rules import AvailabilityPolicy
from core.pairing import rules
from core.pairing import store as pairing
from core.pairing.rules import Response
from core.pairing_failures.causes import CauseTag
from core.runtime import Runtime
from core.sessions import store as sessions
from core.sessions.states import SessionStatus
from core.sessions.store import Session
from core.steps import announce, search
from core.steps.availability import availability_policy
from core.storage.database import Tx

BATCH = 50  # small, so that other timers run in between
IDLE_BATCH = 500  # larger, because idle rounds share a few statements
REPEATS = 500
log = logs.get("pairing")


async def invite_available(runtime: Runtime, *, mitra_ids: list[str] | None = None) -> None:
    """Invite mitras who became eligible to the running blasts: those of `mitra_ids`, or all without it."""
    limits = availability_policy(runtime.config)
    for session_id in await pairing.inviting_sessions(runtime.db, limits, now=runtime.now(), only=mitra_ids):
        try:
            await _invite(runtime, session_id, limits, mitra_ids)
        except Unavailable:
            raise
        except Exception:  # one failure must not stop the other searches
            log.exception("inviting mitras failed", session_id=session_id)


async def _invite(runtime: Runtime, session_id: str, limits: AvailabilityPolicy, mitra_ids: list[str] | None) -> None:
    async with runtime.transaction() as tx:
        # The sweep skips a locked session, because it runs again in a second. A mitra who just became free waits for
        # the lock.
        session = await (sessions.lock_if_free if mitra_ids is None else sessions.lock)(tx, session_id)
        if session is None or session.status is not SessionStatus.SEARCHING or session.round_ends_at is None:
            return
        if session.round_ends_at <= tx.now:
            return
        await search.ask_more(tx, session, limits, only=mitra_ids)


async def end_rounds(runtime: Runtime) -> int:
    """End the rounds whose time has passed; return how many."""
    limits = availability_policy(runtime.config)
    ended = await _end_idle_rounds(runtime, limits)
    for session_id in await pairing.due_rounds(runtime.db, now=runtime.now(), limit=BATCH):
        try:
            async with runtime.transaction() as tx:
                session = await sessions.lock_if_free(tx, session_id)
                if session is None or session.status is not SessionStatus.SEARCHING:
                    continue
                if session.round_ends_at is not None and session.round_ends_at <= tx.now:
                    await _end_round(runtime, tx, session, limits)
                    ended += 1
        except Unavailable:
            raise
        except Exception:  # one failure must not stop the other searches
            log.exception("ending a round failed", session_id=session_id)
    return ended


async def _end_idle_rounds(runtime: Runtime, limits: AvailabilityPolicy) -> int:
    """End the rounds of searches that have no mitra to invite, in one transaction; return how many.

    Such a search lasts until its time limit, and this makes each of its rounds cheap. If it fails, `end_rounds` ends
    each round separately.
    """
    try:
        async with runtime.transaction() as tx:
            quiet = await sessions.lock_quiet_rounds(tx, now=runtime.now(), limit=IDLE_BATCH)
            if not quiet:
                return 0
            idle = await pairing.idle_of(tx, list(quiet), limits, now=tx.now)
            if idle:
                await sessions.begin_rounds(tx, {one: _round_ends(runtime, tx, quiet[one]) for one in idle})
            return len(idle)
    except Unavailable:
        return 0
    except Exception:
        log.exception("ending idle rounds together failed")
        return 0


def _round_ends(runtime: Runtime, tx: Tx, search_ends_at: dt.datetime) -> dt.datetime:
    length = runtime.config.seconds("pairing_blast_timeout_seconds")
    return rules.round_ends(now=tx.now, round_length=length, search_ends_at=search_ends_at)


async def _end_round(runtime: Runtime, tx: Tx, session: Session, limits: AvailabilityPolicy) -> None:
    if session.targeted_mitra_id is not None:
        await search.give_up(tx, session, CauseTag.TARGETED_MITRA_TIMEOUT)
        return
    assert session.search_ends_at is not None
    tally = await pairing.tally(tx, session.id)
    unanswered = await pairing.close_open(tx, session.id, Response.IGNORED)
    is_over = session.search_ends_at <= tx.now
    if is_over or (rules.all_rejected(tally) and not await pairing.anyone_eligible(tx, session.id, limits, now=tx.now)):
        await announce.requests_closed(
            tx, session.id, unanswered, "timeout", topic_sensitivity=session.topic_sensitivity
        )
        await search.give_up(tx, session, CauseTag.NO_MITRA_AVAILABLE if is_over else CauseTag.ALL_MITRAS_REJECTED)
        return
    number, ends_at = session.round_number + 1, _round_ends(runtime, tx, session.search_ends_at)
    await sessions.begin_round(tx, session.id, round_number=number, round_ends_at=ends_at)
    asked = await search.ask_more(tx, attrs.evolve(session, round_number=number, round_ends_at=ends_at), limits)
    dropped = sorted(set(unanswered) - set(asked))
    await announce.requests_closed(tx, session.id, dropped, "timeout", topic_sensitivity=session.topic_sensitivity)
    announce.deadline(tx, ends_at)


async def repeat_asked(runtime: Runtime) -> int:
    """Send customers the number of mitras that their searches have asked, if it has grown; return how many searches.

    These frames are not stored. If one is lost, the next one or a snapshot has the right number
    (docs/product.md#repeats).
    """
    async with runtime.transaction() as tx:
        due = await sessions.claim_repeats(tx, limit=REPEATS)
        asked = await pairing.asked_for(tx, [session.id for session in due]) if due else {}
        tx.outgoing.searches.extend(announce.search_progress(due, asked))
    return len(due)
