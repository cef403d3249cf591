"""Declare parties of active sessions absent and end their absences, with the events and pushes
(docs/fairness.md#absent-party).

Both lock the sessions first and then change the absences by guarded statements, so each change has its events once.
"""

import datetime as dt
from collections.abc import Awaitable, Sequence

from core.base import ids
from core.base.actor import UserType
from core.base.id_ranges import first_id
from core.cluster.outages import store as outages
from core.deliveries import events
from core.deliveries import store as deliveries
from core.deliveries.events import Event
from core.deliveries.pushes.plan import DuePush, content_of, plan_within_budget
from core.runtime.container import Runtime
from core.sessions.absences import store
from core.sessions.absences.store import Absence, HeldSession
from core.sessions.clock import time_credits
from core.sessions.events import PeerAbsent, PeerReturned
from core.sessions.rules import CreditReason
from core.storage.transaction import Tx
from core.telemetry import metrics

AT_ONCE = 200  # absences in a transaction


async def declare(runtime: Runtime, tx: Tx, *, after: dt.timedelta) -> int:
    """Declare parties absent who gave no sign of life for `after`; return how many sessions were due."""
    due = await store.silent(tx, now=runtime.now(), after=after, limit=AT_ONCE)
    held = await store.lock_held(tx, due) if due else {}
    if not held:
        return 0
    declared = await store.declare(tx, list(held), after=after)
    pushed = []
    for absence in declared:
        tx.count(metrics.ABSENCES.labels(absence.user_type, "declared"))
        content = content_of(runtime, tx, PeerAbsent.type_name(), ids.new_id(), absence.session_id, "{}")
        assert content is not None
        pushed.append(DuePush(recipient_id=held[absence.session_id].party(absence.user_type), content=content))
    await plan_within_budget(runtime, tx, pushed)
    told = [(a, PeerAbsent(session_id=a.session_id, user_type=a.user_type, since=a.since)) for a in declared]
    await _announce(tx, held, told)
    return len(held)


async def end_returned(runtime: Runtime, tx: Tx, *, user_ids: Sequence[str] | None = None) -> int:
    """End the absences of parties who have returned, or all of them if the row is 0; return how many ended.

    `user_ids`: look at these parties only. An absence that ends because the row is 0 has no event.

    During an outage, and until the sessions have the time back that it took, absences are left as they are.
    """
    if await outages.stands(tx, scale=runtime.clock.scale):
        return 0
    is_off = not runtime.config.number("peer_absent_seconds")
    found = await store.returned(tx, anyway=is_off, limit=AT_ONCE, user_ids=user_ids)
    held = await store.lock_held(tx, sorted(set(found.values()))) if found else {}
    if not held:
        return 0
    ended = await store.end_returned(tx, list(found), list(held))
    back = [absence for absence in ended if absence.returned]
    for absence in back:
        assert absence.ended_at is not None
        tx.count(metrics.ABSENCES.labels(absence.user_type, "returned"))
        tx.count(metrics.ABSENCE_SECONDS.labels(absence.user_type), (absence.ended_at - absence.since).total_seconds())
    await _announce(tx, held, [(a, PeerReturned(session_id=a.session_id, user_type=a.user_type)) for a in back])
    if not is_off and runtime.config.flag("fair_clock"):
        most = runtime.config.seconds("fair_clock_max_seconds")
        for absence in back:
            if absence.user_type == "mitra" and held[absence.session_id].runs(tx.now):
                await _credit(tx, absence, most=most)
    return len(ended)


async def _credit(tx: Tx, absence: Absence, *, most: dt.timedelta) -> None:
    """Give a session back the time of its mitra's absence. Time that an outage has given back is not given twice."""
    assert absence.ended_at is not None
    await time_credits.give(
        tx,
        [absence.session_id],
        reason=CreditReason.MITRA_ABSENT,
        began_at=absence.since,
        ended_at=absence.ended_at,
        most=most,
    )


async def _announce(tx: Tx, held: dict[str, HeldSession], told: Sequence[tuple[Absence, Event]]) -> None:
    """Send an event about each absence to the other party. The caller holds the locks of the sessions."""
    notices = []
    for absence, event in told:
        kind, recipient_id = held[absence.session_id].other(absence.user_type)
        notices += await events.notices(tx, event, [recipient_id], UserType(kind), session_id=absence.session_id)
    await deliveries.add(tx, notices)


async def sweep(runtime: Runtime) -> None:
    """Sweep: end the absences of parties who have returned and of sessions that are over, then declare new ones.

    With `peer_absent_seconds` 0 it ends those that are open, and writes nothing if there are none.
    """
    if await store.any_open(runtime.db):
        async with runtime.transaction() as tx:
            await store.end_with_sessions(tx, limit=AT_ONCE)
        while await _end_returned(runtime) >= AT_ONCE:
            continue
    after = runtime.config.seconds("peer_absent_seconds")
    while after:
        async with runtime.transaction() as tx:
            if await declare(runtime, tx, after=after) < AT_ONCE:
                return


async def _end_returned(runtime: Runtime) -> int:
    async with runtime.transaction() as tx:
        return await end_returned(runtime, tx)


async def purge(runtime: Runtime) -> None:
    """Sweep: delete the signs of life of sessions that are over, and old absences."""

    def old(tx: Tx) -> Awaitable[int]:
        return store.purge(tx, end_id=first_id(runtime.clock.real_time(tx.now - store.KEEP)))

    for remove in (store.purge_presence, old):
        await runtime.in_batches(remove, at_once=store.AT_ONCE)
