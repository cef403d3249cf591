"""Remove rows whose retention has ended (docs/operating.md#retention).

Webhook calls are removed by whole months. Calls without a valid token, which anyone can make in any number, are deleted
singly, long before.
"""

import datetime as dt

import asyncpg

from core.base import logs
from core.base.id_ranges import EPOCH, until
from core.runtime import Runtime
from core.storage import partitions
from core.webhooks import store as webhooks

log = logs.get("retention")
WEBHOOK_LOGS = "webhook_logs"


def _end_of(runtime: Runtime, row: str) -> dt.datetime | None:
    """Return the time before which the retention of a configuration row has ended; None if it never ends."""
    days = runtime.config.number(row)
    return runtime.now() - dt.timedelta(days=days) if days else None


async def remove_webhook_months(runtime: Runtime) -> None:
    """Sweep: remove the months of webhook calls that ended before the retention, and finish what a sweep left undone.

    A month is detached first. That waits until no statement reads it, and if it is interrupted, the next sweep finishes
    it. Through a pooler a detachment can't be concurrent; it then locks the table for a moment.
    """
    before = _end_of(runtime, "retention_webhook_days")
    ended = partitions.past(await partitions.partitions(runtime.db), WEBHOOK_LOGS, before or EPOCH)
    for one in ended:
        async with runtime.db.connection() as connection:
            try:
                await partitions.detach(connection, one, concurrently=not runtime.settings.through_pooler)
            except (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError):
                log.warning("removing a month of webhook calls waits for the next sweep", partition=one.name)
                return
    async with runtime.transaction() as tx:
        gone = await partitions.drop_detached(tx, WEBHOOK_LOGS)
    if gone:
        log.info("removed months of webhook calls", names=gone)


async def remove_unproven_calls(runtime: Runtime) -> None:
    """Sweep: delete old webhook calls without a valid token."""
    before = _end_of(runtime, "retention_invalid_webhook_days")
    while before is not None:
        async with runtime.transaction() as tx:
            gone = await webhooks.remove_unproven(tx, before=before, end_id=until(before))
        if gone < webhooks.REMOVED_AT_ONCE:
            return
