"""Declare parties of active sessions absent and end their absences, with the events and pushes (docs/fairness.md).

Both lock the sessions first and then change the absences by guarded statements, so each change has its events once.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import msgspec

from core.base import ids
from core.cluster.outages import store as outages
from core.deliveries import store as deliveries
from core.deliveries.pushes.plan import Due, content_of, plan_within_budget
from core.events.notices import Notice
from core.runtime.container import Runtime
from core.sessions.absences import store
from core.sessions.absences.store import Absence, HeldSession
from core.sessions.clock import time_credits
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
        content = content_of(runtime, tx, "peer_absent", ids.new_id(), absence.session_id, "{}")
        assert content is not None
        pushed.append(Due(recipient_id=held[absence.session_id].party(absence.user_type), content=content))
    await plan_within_budget(runtime, tx, pushed)
    await _announce(tx, held, declared, "peer_absent")
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
    await _announce(tx, held, back, "peer_returned")
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


async def _announce(tx: Tx, held: dict[str, HeldSession], absences: list[Absence], event: str) -> None:
    """Send an event about each absence to the other party. The caller holds the locks of the sessions."""
    if not absences:
        return
    at, notices = await tx.event_time(), []
    for absence in absences:
        recipient_type, recipient_id = held[absence.session_id].other(absence.user_type)
        frame: dict[str, Any] = {
            "type": event,
            "session_id": absence.session_id,
            "user_type": absence.user_type,
        }
        if event == "peer_absent":
            frame["since"] = absence.since
        notices.append(
            Notice(
                event_id=ids.new_event_id(at),
                recipient_id=recipient_id,
                recipient_type=recipient_type,
                event=event,
                session_id=absence.session_id,
                payload=msgspec.json.encode(frame).decode(),
            )
        )
    await deliveries.add(tx, notices)
