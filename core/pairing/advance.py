"""Advance running searches (docs/product.md#rounds).

Mitras who become eligible are invited, waves and rounds end and begin, and a search that can't succeed fails.
"""

from core.accounts.mitras.rules import AvailabilityPolicy, availability_policy
from core.base.errors import Unavailable
from core.pairing import announce, invitations, round_records, rules, search
from core.pairing import store as pairing
from core.pairing.rules import Response
from core.payments.failures.causes import CauseTag
from core.runtime.container import Runtime
from core.sessions import store as sessions
from core.sessions.clock import session_clock
from core.sessions.states import SessionStatus
from core.sessions.store import Session
from core.storage.transaction import Tx
from core.telemetry import logs

BATCH = 50  # small, so that other timers run in between
IDLE_BATCH = 500  # larger, because idle rounds share a few statements
log = logs.get("pairing")


async def invite_available(runtime: Runtime, *, mitra_ids: list[str] | None = None) -> None:
    """Ask mitras who became eligible in the running blasts: those of `mitra_ids`, or all without it.

    A blast whose wave is full asks them in a later wave.
    """
    policy, waves = availability_policy(runtime.config), invitations.waves(runtime.config)
    asking = await pairing.inviting_sessions(runtime.db, policy, waves, now=runtime.now(), only=mitra_ids)
    for session_id in asking:
        try:
            # The sweep skips a locked session, because it runs again in a second. A mitra who just became free waits
            # for the lock.
            await _ask(runtime, session_id, mitra_ids, wait=mitra_ids is not None)
        except Unavailable:
            raise
        except Exception:  # one failure must not stop the other searches
            log.exception("inviting mitras failed", session_id=session_id)


async def go_on(runtime: Runtime, *, session_id: str) -> None:
    """Ask the next mitras of a search that has asked as many as one transaction may.

    If this process dies before, the jobs process finds the search with `invite_available`.
    """
    await _ask(runtime, session_id, None, wait=True)


async def end_waves(runtime: Runtime) -> int:
    """Begin the next waves of the searches whose wave is over; return how many searches were due."""
    due = await pairing.due_waves(runtime.db, now=runtime.now(), limit=BATCH)
    for session_id in due:
        try:
            await _ask(runtime, session_id, None, wait=False)
        except Unavailable:
            raise
        except Exception:  # one failure must not stop the other searches
            log.exception("beginning a wave failed", session_id=session_id)
    return len(due)


async def _ask(runtime: Runtime, session_id: str, mitra_ids: list[str] | None, *, wait: bool) -> None:
    async with runtime.transaction() as tx:
        if not wait and await session_clock.stands(runtime, tx):
            return
        session = await (sessions.lock if wait else sessions.lock_if_free)(tx, session_id)
        if session is None or session.status is not SessionStatus.SEARCHING:
            return
        present = search.running(session)
        if tx.now < present.round.ends_at:
            await invitations.ask_more(tx, session.id, present, runtime.config, only=mitra_ids)


async def end_rounds(runtime: Runtime) -> int:
    """End the rounds whose time has passed; return how many."""
    policy = availability_policy(runtime.config)
    ended = await _end_idle_rounds(runtime, policy)
    for session_id in await pairing.due_rounds(runtime.db, now=runtime.now(), limit=BATCH):
        try:
            async with runtime.transaction() as tx:
                if await session_clock.stands(runtime, tx):
                    return ended
                session = await sessions.lock_if_free(tx, session_id)
                if session is None or session.status is not SessionStatus.SEARCHING:
                    continue
                if search.running(session).round.ends_at <= tx.now:
                    await _end_round(runtime, tx, session, policy)
                    ended += 1
        except Unavailable:
            raise
        except Exception:  # one failure must not stop the other searches
            log.exception("ending a round failed", session_id=session_id)
    return ended


async def _end_idle_rounds(runtime: Runtime, policy: AvailabilityPolicy) -> int:
    """End the rounds of searches that have no mitra to invite, in one transaction; return how many.

    Such a search lasts until its time limit, and this makes each of its rounds cheap. If it fails, `end_rounds` ends
    each round separately.
    """
    try:
        async with runtime.transaction() as tx:
            if await session_clock.stands(runtime, tx):
                return 0
            quiet = await sessions.lock_quiet_rounds(tx, now=runtime.now(), limit=IDLE_BATCH)
            if not quiet:
                return 0
            idle = await pairing.idle_of(tx, list(quiet), policy, now=tx.now)
            if idle:
                length = search.limits(runtime.config).blast_round
                await round_records.end(tx, idle)
                await sessions.begin_rounds(
                    tx,
                    {one: rules.round_ends(now=tx.now, round_length=length, search_ends_at=quiet[one]) for one in idle},
                )
                await round_records.begin(tx, idle, policy)
            return len(idle)
    except Unavailable:
        return 0
    except Exception:
        log.exception("ending idle rounds together failed")
        return 0


async def _end_round(runtime: Runtime, tx: Tx, session: Session, policy: AvailabilityPolicy) -> None:
    tally, anyone_eligible = await search.count(tx, session, policy)
    present = search.running(session)
    following = rules.end_of_round(
        present, tally, search.limits(runtime.config), anyone_eligible=anyone_eligible, now=tx.now
    )
    if isinstance(following, CauseTag):
        await search.give_up(tx, session, following)
        return
    unanswered = await invitations.end_round(tx, session.id, Response.IGNORED)
    asked = await invitations.begin_round(tx, session.id, present, following, runtime.config)
    dropped = sorted(set(unanswered) - set(asked))
    await announce.requests_closed(tx, session, dropped, "timeout")


async def repeat_asked(runtime: Runtime) -> int:
    """Send customers the number of mitras that their searches have asked, if it has grown; return how many searches.

    These frames are not stored. If one is lost, the next one or a snapshot has the right number
    (docs/product.md#repeats).
    """
    async with runtime.transaction() as tx:
        due = await sessions.claim_repeats(tx)
        asked = await pairing.asked_for(tx, [session.id for session in due]) if due else {}
        tx.outgoing.searches.extend(announce.search_progress(due, asked))
    return len(due)
