"""Events on their way: acknowledged, sent again, given up (contract 7)."""

import datetime as dt

from core.base.actor import Actor
from core.deliveries import store as deliveries
from core.events.notices import Notice
from core.runtime import Runtime, away_is_unavailable
from core.steps import goodbyes

KEEP_S = 3600.0  # a client that was away for longer gets a snapshot, not old events


async def acknowledge(runtime: Runtime, acks: list[tuple[str, Actor]]) -> set[str]:
    """Take the acknowledgements of many users, each an event id and who has it; one device is enough for a user.

    Return the ids of the events that were waiting: the others are unknown, another user's or acknowledged already. Raises
    Unavailable.
    """
    pairs = [(event_id, recipient_id) for event_id, actor in acks for recipient_id in actor.ids]
    with away_is_unavailable():
        return await deliveries.acknowledge(runtime.db, pairs)


async def waiting(runtime: Runtime, *, since: dt.datetime, older_than_s: float) -> list[Notice]:
    """Return events since a moment (real time) that no device has acknowledged for `older_than_s`, as they are sent."""
    found = await deliveries.waiting(runtime.db, since=since, older_than_s=older_than_s)
    return await goodbyes.fill_in(runtime.db, found)


async def unheard(runtime: Runtime, recipient_ids: list[str]) -> dict[str, list[Notice]]:
    """Return the events of the last hour (real time) that each of these users has not acknowledged, as they are sent."""
    found = await deliveries.unheard(runtime.db, recipient_ids, within_s=KEEP_S)
    filled = iter(await goodbyes.fill_in(runtime.db, [notice for notices in found.values() for notice in notices]))
    return {recipient_id: [next(filled) for _ in notices] for recipient_id, notices in found.items()}


async def purge(runtime: Runtime) -> int:
    """Sweep: forget old events; return how many."""
    forgotten = 0
    while True:
        async with runtime.transaction() as tx:
            gone = await deliveries.purge(tx, older_than_s=KEEP_S)
        forgotten += gone
        if gone < deliveries.AT_ONCE:
            return forgotten
