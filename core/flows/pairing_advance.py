"""A running search: who became free is asked, rounds end and begin, a search that has no future fails (contract 5)."""

from core.base import logs
from core.base.errors import Unavailable
from core.pairing import rules
from core.pairing import store as pairing
from core.pairing.rules import CauseTag, Response
from core.runtime import Runtime
from core.sessions import store as sessions
from core.sessions.states import SessionStatus
from core.sessions.store import Session
from core.steps import announce, search
from core.steps.freedom import freedom
from core.storage.database import Tx

BATCH = 50  # so that the other timers come round
log = logs.get("pairing")


async def invite_free(runtime: Runtime, *, mitra_ids: list[str] | None = None) -> None:
    """Ask mitras who became eligible while a blast runs; all of them when `mitra_ids` is None."""
    limits = freedom(runtime.config)
    for session_id in await pairing.inviting_sessions(runtime.db, limits, now=runtime.now(), only=mitra_ids):
        async with runtime.transaction() as tx:
            session = await sessions.lock(tx, session_id)
            if session is None or session.status is not SessionStatus.SEARCHING or session.round_ends_at is None:
                continue
            if session.round_ends_at <= tx.now:
                continue
            asked = await pairing.invite(
                tx,
                session_id,
                limits,
                round_number=session.round_number,
                answer_by=session.round_ends_at,
                only=mitra_ids,
            )
            await announce.chat_requests(tx, session_id, asked)


async def end_rounds(runtime: Runtime) -> int:
    """End the rounds whose time is up; return how many."""
    ended = 0
    for session_id in await pairing.due_rounds(runtime.db, now=runtime.now(), limit=BATCH):
        try:
            async with runtime.transaction() as tx:
                session = await sessions.lock_if_free(tx, session_id)
                if session is None or session.status is not SessionStatus.SEARCHING:
                    continue
                if session.round_ends_at is not None and session.round_ends_at <= tx.now:
                    await _end_round(runtime, tx, session)
                    ended += 1
        except Unavailable:
            raise
        except Exception:  # one search that can't be ended must not keep the others from it
            log.exception("a round could not be ended", session_id=session_id)
    return ended


async def _end_round(runtime: Runtime, tx: Tx, session: Session) -> None:
    if session.targeted_mitra_id is not None:
        await search.give_up(tx, session, CauseTag.TARGETED_MITRA_TIMEOUT)
        return
    limits = freedom(runtime.config)
    assert session.search_ends_at is not None
    tally = await pairing.tally(tx, session.id)
    unanswered = await pairing.close_open(tx, session.id, Response.IGNORED)
    over = session.search_ends_at <= tx.now
    if over or not await pairing.anyone_eligible(tx, session.id, limits, now=tx.now):
        await announce.requests_closed(
            tx, session.id, unanswered, "timeout", topic_sensitivity=session.topic_sensitivity
        )
        all_said_no = not over and rules.everybody_said_no(tally)
        await search.give_up(tx, session, CauseTag.ALL_MITRAS_REJECTED if all_said_no else CauseTag.NO_MITRA_AVAILABLE)
        return
    number = session.round_number + 1
    ends_at = rules.round_ends(
        now=tx.now,
        round_length=runtime.config.seconds("pairing_blast_timeout_seconds"),
        search_ends_at=session.search_ends_at,
    )
    await sessions.begin_round(tx, session.id, round_number=number, round_ends_at=ends_at)
    asked = await pairing.invite(tx, session.id, limits, round_number=number, answer_by=ends_at)
    dropped = sorted(set(unanswered) - set(asked))
    await announce.requests_closed(tx, session.id, dropped, "timeout", topic_sensitivity=session.topic_sensitivity)
    await announce.chat_requests(tx, session.id, asked)
    announce.deadline(tx, ends_at)
