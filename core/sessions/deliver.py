"""Acknowledge, resend and delete stored events (docs/events.md)."""

import datetime as dt
from collections.abc import AsyncIterator, Callable, Sequence

from core.base.actor import Actor
from core.deliveries import store as deliveries
from core.deliveries.stages import TrailStage
from core.deliveries.store import EventAck
from core.events.notices import Notice
from core.runtime.container import Runtime
from core.sessions import announce
from core.telemetry import metrics

KEEP_S = 3600.0  # a client that was away for longer needs only the snapshot


async def acknowledge(
    runtime: Runtime, acks: Sequence[tuple[str, Actor]], *, unshown: Sequence[tuple[str, Actor]] = ()
) -> set[str]:
    """Delete acknowledged events, and note the devices that have an event without showing it (`unshown`).

    Each entry is (event id, the user who acknowledges it); one device that shows it is enough for a user. Returns the
    ids of the events that were pending. The others are unknown, another user's or acknowledged already. Raises
    Unavailable.
    """
    each = [
        EventAck(event_id=event_id, recipient_id=recipient_id, device_id=actor.auth_session_id, shown=shown)
        for shown, some in ((True, acks), (False, unshown))
        for event_id, actor in some
        for recipient_id in actor.ids
    ]
    done, noted = await deliveries.acknowledge(runtime.db, each, at=runtime.now())
    metrics.DELIVERY_TRAIL_ROWS.labels(TrailStage.ACKNOWLEDGED).inc(noted)
    for one in done:
        if one.seconds is not None:
            metrics.EVENT_ACK_SECONDS.labels(one.event).observe(one.seconds)
    return {one.event_id for one in done}


async def waiting(
    runtime: Runtime, *, since: dt.datetime, older_than_s: float, wanted: Callable[[str, str], bool]
) -> AsyncIterator[list[Notice]]:
    """Yield events created since `since` (real time) that have been unacknowledged for `older_than_s` real seconds.

    `wanted` is called with an event id and a recipient id; events for which it returns False are left out. The others
    are yielded in portions, as they are sent, with goodbyes.
    """
    async for found in deliveries.waiting(runtime.db, since=since, older_than_s=older_than_s, wanted=wanted):
        yield await announce.add_goodbyes(runtime.db, found)


async def unacknowledged(runtime: Runtime, recipient_ids: Sequence[str]) -> dict[str, list[Notice]]:
    """Return the unacknowledged events of these users, as they are sent, by user id.

    Only events of the last hour (real time) are returned.
    """
    found = await deliveries.unacknowledged(runtime.db, recipient_ids, within_s=KEEP_S)
    with_goodbyes = iter(
        await announce.add_goodbyes(runtime.db, [notice for notices in found.values() for notice in notices])
    )
    return {recipient_id: [next(with_goodbyes) for _ in notices] for recipient_id, notices in found.items()}


def is_owed(notice: Notice, actor: Actor) -> bool:
    """Return whether the caller's device has not acknowledged an event that is unacknowledged or was not shown."""
    return actor.auth_session_id not in (notice.unshown_on or ())


async def purge(runtime: Runtime) -> int:
    """Sweep: delete events older than an hour; return how many."""
    return await runtime.in_batches(lambda tx: deliveries.purge(tx, older_than_s=KEEP_S), at_once=deliveries.AT_ONCE)
