"""Store messages and read markers in batches, one transaction each, and publish them after the commit.

This is the hot path. The realtime process passes batches, on a separate connection pool; REST passes lists of one.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from core.base.actor import Actor, UserType
from core.base.clock import monotonic, real_sleep
from core.base.errors import NotFound, Unavailable
from core.bus.buckets import Limit
from core.bus.rate_limit import RateLimited
from core.events.notices import Envelope, ReadMarkerMoved
from core.runtime.container import Runtime
from core.sessions import own_session
from core.sessions.clock import session_clock
from core.sessions.messages import store
from core.sessions.messages.rules import Draft, NotStored, ReadMarkers, StoreResult, TooFast, Unshown
from core.sessions.rules import SessionNotActive
from core.telemetry import metrics

RETRY_AFTER_S = (0.05, 0.2, 0.8)
GIVE_UP_S = 2.0  # if the first attempt took longer, the server is frozen: fail instead of retrying


async def send_one(runtime: Runtime, actor: Actor, draft: Draft) -> StoreResult:
    """Store one message of the caller and publish it. Raises NotFound, TooFast, SessionNotActive, Unavailable."""
    session, party = await own_session.get(runtime.db, actor, session_id=draft.session_id)
    await _limit(runtime, party, session.id)
    draft = msgspec.structs.replace(draft, sender_id=party)
    answer = await _commit(runtime, [draft], {})
    result = answer[1][0]
    if not isinstance(result, StoreResult):
        if result is NotStored.NOT_A_PARTY:
            raise NotFound
        raise Unavailable if await session_clock.go_on(runtime, {session.id}) else SessionNotActive
    if not result.repeated and session.mitra_id is not None:
        metrics.MESSAGES.inc()
        stored = draft.stored(result, customer_id=session.customer_id, mitra_id=session.mitra_id)
        runtime.publisher.publish_frames(Envelope(messages=[stored]))
    return result


async def _limit(runtime: Runtime, party: str, session_id: str) -> None:
    """Count a message sent over REST against the user's rate in the session. Raises TooFast.

    The rate is the same as for sockets. The bucket is shared by all processes that serve REST, but separate from those
    of the sockets, because asking Redis for each message would cost a socket more than the message itself.
    """
    settings = runtime.settings
    limit = Limit(name="messages", per_minute=settings.ws_messages_per_second * 60, burst=settings.ws_messages_burst)
    try:
        now_us = int(runtime.now().timestamp() * 1_000_000)
        await runtime.rate_limit.take(limit, f"{session_id}:{party}", now_us=now_us)
    except RateLimited as error:
        raise TooFast(retry_after_seconds=error.retry_after_seconds) from error


async def mark_read(runtime: Runtime, actor: Actor, *, session_id: str, up_to: int) -> None:
    """Move the caller's read and delivered markers up to `up_to`. Raises NotFound, Unavailable."""
    session, _ = await own_session.get(runtime.db, actor, session_id=session_id)
    bound = min(up_to, session.last_seq)
    mitra = actor.user_type is UserType.MITRA
    mark = (
        ReadMarkers(mitra_delivered=bound, mitra_read=bound)
        if mitra
        else ReadMarkers(customer_delivered=bound, customer_read=bound)
    )
    at, _ = await _commit(runtime, [], {session_id: mark})
    if bound and session.mitra_id is not None:
        moved = ReadMarkerMoved(
            session_id=session.id,
            customer_id=session.customer_id,
            mitra_id=session.mitra_id,
            reader=actor.user_type,
            status="read",
            up_to=bound,
            at=at or runtime.now(),
        )
        runtime.publisher.publish_frames(Envelope(read_markers=[moved]))


async def note_unshown(runtime: Runtime, unshown: Sequence[Unshown]) -> None:
    """Note devices that have messages without showing them: the push leaves them out. Raises Unavailable."""
    await store.note_unshown(runtime.db, unshown)


async def _commit(
    runtime: Runtime, drafts: list[Draft], marks: dict[str, ReadMarkers]
) -> tuple[Any, list[StoreResult | NotStored]]:
    clock = runtime.clock
    return await store.commit(runtime.commits, drafts, marks, anchor=clock.anchor, scale=clock.scale)


async def commit_batch(
    runtime: Runtime, drafts: list[Draft], marks: dict[str, ReadMarkers]
) -> tuple[Any, list[StoreResult | NotStored]]:
    """Store a batch of frames from many connections, and retry while the database is unavailable.

    A retry is always safe: a `client_message_id` is stored once, and markers only grow. Returns (the transaction's
    time, a result for each draft). Raises Unavailable if the retries fail.
    """
    began = monotonic()
    for pause in (*RETRY_AFTER_S, None):
        try:
            return await _commit(runtime, drafts, marks)
        except Unavailable:
            if pause is None or monotonic() - began > GIVE_UP_S:
                raise
            await real_sleep(pause)
    raise AssertionError("unreachable")


async def go_on(runtime: Runtime, drafts: list[Draft], answers: list[StoreResult | NotStored]) -> set[str]:
    """Return the sessions of refused messages that go on after a credit: their messages are to be sent again.

    If the database does not answer, these are all of them.
    """
    if not runtime.config.flag("fair_clock"):
        return set()
    refused = {
        draft.session_id for draft, answer in zip(drafts, answers, strict=True) if answer is NotStored.NOT_ACTIVE
    }
    try:
        return await session_clock.go_on(runtime, refused)
    except Unavailable:
        return refused


async def sync_statuses(runtime: Runtime, after: dict[str, int]) -> dict[str, int]:
    """Write the statuses of single messages from their sessions' markers, beyond `after` (session id to seq).

    Returns, by session id, the seq up to which statuses are now final. Long sessions take several statements; what is
    final is decided by the markers that the first one saw.
    """
    synced = await _sync(runtime, after)
    final = {one.id: one.final for one in synced if one.final is not None}
    while further := {one.id: after[one.id] + store.SYNC_AT_ONCE for one in synced if one.goes_on}:
        after = further
        synced = await _sync(runtime, after)
    return final


async def _sync(runtime: Runtime, after: dict[str, int]) -> list[store.StatusSync]:
    async with runtime.commits.connection() as connection:
        return await store.sync_statuses(connection, after)
