"""Remove rows and texts whose retention has ended (docs/operating.md#retention).

Webhook calls and the delivery trail of events are removed by whole months. Calls without a valid token, which anyone
can make in any number, are deleted singly, long before. Sweeps that delete single rows do so in bounded transactions:
several processes may share the work, and the next sweep finds what a dead process has left.
"""

import datetime as dt
import functools

import asyncpg

from core.accounts.customers import store as customers
from core.accounts.logins import store as logins
from core.accounts.logins.otp import WINDOW
from core.base.id_ranges import EPOCH, first_id, until
from core.deliveries.stages import KEPT
from core.payments.webhooks import store as webhooks
from core.runtime.container import Runtime
from core.runtime.retention import end_of
from core.sessions.messages import blank as blank_texts
from core.sessions.reports import store as reports
from core.storage import partitions
from core.telemetry import logs

log = logs.get("retention")
WEBHOOK_LOGS, DELIVERY_TRAIL = "webhook_logs", "delivery_trail"
AT_ONCE = 1_000  # rows in a transaction


async def remove_webhook_months(runtime: Runtime) -> None:
    """Sweep: remove the months of webhook calls that ended before the retention, and finish what a sweep left undone.

    A month is detached first. That waits until no statement reads it, and if it is interrupted, the next sweep finishes
    it. Through a pooler a detachment can't be concurrent; it then locks the table for a moment.
    """
    end = await end_of(runtime, "retention_webhook_days")
    await _remove_months(runtime, WEBHOOK_LOGS, EPOCH if end is None else runtime.clock.real_time(end))


async def remove_trail_months(runtime: Runtime) -> None:
    """Sweep: remove the months of the delivery trail in the same way. Event ids have real time, so its age has too."""
    await _remove_months(runtime, DELIVERY_TRAIL, runtime.clock.real_now() - KEPT)


async def _remove_months(runtime: Runtime, table: str, before: dt.datetime) -> None:
    for one in partitions.past(await partitions.partitions(runtime.db), table, before):
        async with runtime.db.connection() as connection:
            try:
                await partitions.detach(connection, one, concurrently=not runtime.settings.through_pooler)
            except (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError):
                log.warning("removing a month waits for the next sweep", partition=one.name)
                return
    async with runtime.transaction() as tx:
        gone = await partitions.drop_detached(tx, table)
    if gone:
        log.info("removed months", table=table, names=gone)


async def remove_unproven_calls(runtime: Runtime) -> None:
    """Sweep: delete old webhook calls without a valid token."""
    before = await end_of(runtime, "retention_invalid_webhook_days")
    while before is not None:
        async with runtime.transaction() as tx:
            gone = await webhooks.remove_unproven(tx, before=before, end_id=until(before, scale=runtime.clock.scale))
        if gone < webhooks.REMOVED_AT_ONCE:
            return


async def blank_old_sessions(runtime: Runtime) -> None:
    """Sweep: blank the texts of sessions that ended before the retention, and finish what a process left undone."""
    before = await end_of(runtime, "retention_messages_days")
    await _blank_messages(runtime)
    while before is not None:
        async with runtime.transaction() as tx:
            begun = await blank_texts.blank_due(tx, before=before)
        # Even if it marked none: while it looked, it may have locked a session that another process has just marked,
        # and that process passes over locked ones.
        await _blank_messages(runtime)
        if not begun:
            return


async def _blank_messages(runtime: Runtime) -> None:
    """Blank the messages of all sessions that are marked."""
    while True:
        async with runtime.transaction() as tx:
            if not await blank_texts.blank_messages(tx):
                return


async def blank_reports(runtime: Runtime) -> None:
    """Sweep: remove the texts of reports that were resolved before the retention."""
    before = await end_of(runtime, "retention_messages_days")
    if before is not None:
        await runtime.in_batches(functools.partial(reports.blank, before=before, limit=AT_ONCE), at_once=AT_ONCE)


async def remove_codes(runtime: Runtime) -> None:
    """Sweep: delete old requests for codes.

    The limits count those of the last hour; those of erased users go after it.
    """
    await runtime.in_batches(lambda tx: logins.remove_marks(tx, before=tx.now - WINDOW, limit=AT_ONCE), at_once=AT_ONCE)
    before = await end_of(runtime, "retention_otp_days")
    if before is not None:
        remove = functools.partial(
            logins.remove_codes, before=before, end_id=first_id(runtime.clock.real_time(before)), limit=AT_ONCE
        )
        await runtime.in_batches(remove, at_once=AT_ONCE)


async def remove_auth_sessions(runtime: Runtime) -> None:
    """Sweep: delete auth sessions that ended long ago. A token of theirs is refused as before: it is unknown now."""
    before = await end_of(runtime, "retention_ended_auth_sessions_days")
    if before is not None:
        await runtime.in_batches(functools.partial(logins.remove_ended, before=before, limit=AT_ONCE), at_once=AT_ONCE)


async def remove_unused_customers(runtime: Runtime) -> None:
    """Sweep: delete anonymous customers who never asked for a payment and whose devices were not used for long.

    It looks at every old anonymous customer, because no column says whether one has paid.
    """
    before = await end_of(runtime, "retention_unused_anonymous_days")
    place = customers.FIRST
    while before is not None:
        async with runtime.transaction() as tx:
            looked_at = await customers.anonymous(tx, before=before, after=place, limit=AT_ONCE)
            found = [customer_id for _, customer_id in looked_at]
            devices = await logins.lock_unused(tx, found, since=before)
            for _ in ("lock", "check again"):
                found = await customers.lock_unused(tx, found, auth_session_ids=devices)
            await logins.remove(tx, found)
            await customers.remove(tx, found)
        if len(looked_at) < AT_ONCE:
            return
        place = looked_at[-1]
