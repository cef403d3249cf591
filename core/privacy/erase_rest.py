"""Erase what the first transaction of an erasure has left: texts, marked columns, payer data (docs/privacy.md#erasure).

Each step is one bounded transaction that may be repeated, so a process may die between any two of them. An erasure is
complete when nothing is left, and no request or event from before it can store something.
"""

from core.accounts.customers import erasing as customer_erasing
from core.accounts.operators import store as operators
from core.base.actor import UserType
from core.base.errors import Unavailable
from core.deliveries import store as deliveries
from core.deliveries import trail
from core.erasures import store as erasures
from core.erasures.rules import SETTLED
from core.erasures.store import Erasure
from core.idempotency import store as idempotency
from core.payments import erasing as payment_erasing
from core.payments.webhooks import erasing as webhook_erasing
from core.privacy import erase, erase_columns
from core.runtime.container import Runtime
from core.sessions import erasing as session_erasing
from core.sessions.messages import blank as blank_texts
from core.telemetry import logs

AT_ONCE = 100  # erasures in one read
TRAIL_AT_ONCE = 5_000  # rows of the delivery trail in one transaction
log = logs.get("erasure")


async def go_on(runtime: Runtime) -> None:
    """Sweep: go on with all erasures that are not complete. Those that another process works on are left to it."""
    after: Erasure | None = None
    while True:
        found = await erasures.pending(runtime.db, after=after, limit=AT_ONCE)
        for one in found:
            try:
                await _go_on(runtime, one)
            except Unavailable:
                raise
            except Exception:  # it must not hold up the others
                log.exception("going on with an erasure failed", erasure_id=one.id)
        if len(found) < AT_ONCE:
            return
        after = found[-1]


async def _go_on(runtime: Runtime, erasure: Erasure) -> None:
    is_customer = erasure.user_type == UserType.CUSTOMER.value
    rows = await customer_erasing.rows_of(runtime.db, erasure.user_id) if is_customer else [erasure.user_id]
    if not (await _blank_texts(runtime, erasure, rows) and await _blank_columns(runtime, erasure, rows)):
        return
    await _forget_trail(runtime, rows)
    before = runtime.now() - SETTLED
    if erasure.began_at > before or (
        is_customer and await session_erasing.any_unsettled(runtime.db, rows, since=before)
    ):
        return
    if is_customer:
        await _mask_calls(runtime, rows)
    async with runtime.transaction() as tx:
        if not await erasures.claim(tx, erasure.id):
            return
        await session_erasing.forget_mitra_devices(tx, rows)
        await erase.forget_stored(tx, rows)
        if await idempotency.any_left(tx, rows):  # another transaction has it: the next sweep deletes it
            return
        if is_customer:
            await deliveries.forget_sessions(tx, await session_erasing.of_customers(tx, rows))
        if await trail.forget(tx, rows, limit=TRAIL_AT_ONCE) == TRAIL_AT_ONCE:  # the next sweep goes on
            return
        await operators.blank_audit_log(tx, rows)
        await erasures.complete(tx, erasure.id)
    log.info("erasure is complete", erasure_id=erasure.id, user_type=erasure.user_type, user_id=erasure.user_id)


async def _blank_texts(runtime: Runtime, erasure: Erasure, rows: list[str]) -> bool:
    """Blank the texts of all completed sessions. Return False if another process is at it."""
    while True:
        async with runtime.transaction() as tx:
            if not await erasures.claim(tx, erasure.id):
                return False
            left = await session_erasing.with_texts(tx, rows, limit=blank_texts.SESSIONS_AT_ONCE)
            await blank_texts.blank_sessions(tx, left)
            await blank_texts.blank_messages(tx, left)
            if not left:
                return True


async def _blank_columns(runtime: Runtime, erasure: Erasure, rows: list[str]) -> bool:
    """Set the marked columns to null, those of a table in a transaction. Return False if another process is at it."""
    for sql in erase_columns.BLANK_LATER:
        async with runtime.transaction() as tx:
            if not await erasures.claim(tx, erasure.id):
                return False
            await tx.execute(sql, rows)
    return True


async def _forget_trail(runtime: Runtime, rows: list[str]) -> None:
    """Delete what happened to the user's events on their devices.

    The sweep repeats this until requests from before the erasure have ended. The last transaction of the erasure does
    it once more, after it has deleted the deliveries without which a new row can't be made.
    """
    await runtime.in_batches(lambda tx: trail.forget(tx, rows, limit=TRAIL_AT_ONCE), at_once=TRAIL_AT_ONCE)


async def _mask_calls(runtime: Runtime, rows: list[str]) -> None:
    """Mask the payer data in the gateway's calls about the customers' requests."""
    request_ids, invoice_ids = await payment_erasing.external_ids(runtime.db, rows)
    after = webhook_erasing.NO_ID
    while True:
        found = await webhook_erasing.bodies(runtime.db, request_ids=request_ids, invoice_ids=invoice_ids, after=after)
        async with runtime.transaction() as tx:
            for log_id, body in found:
                if (masked := webhook_erasing.masked(body)) != body:
                    await webhook_erasing.replace_body(tx, log_id, masked)
        if len(found) < webhook_erasing.AT_ONCE:
            return
        after = found[-1][0]
