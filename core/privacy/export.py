"""A customer asks for a copy of their data (docs/privacy.md#export). core/privacy/export_data.py makes it."""

import math

from core.accounts.customers import erasing as customers
from core.accounts.operators import store as operators
from core.base.actor import Actor
from core.base.errors import NotFound
from core.bus.rate_limit import RateLimited
from core.erasures.rules import EXPORT_EVERY
from core.runtime.container import Runtime
from core.telemetry import metrics


async def begin_own(runtime: Runtime, actor: Actor) -> None:
    """Count an export of the caller: one an hour. Raises RateLimited."""
    async with runtime.transaction() as tx:
        account_id = await customers.account_of(tx, actor.user_id)
        last = await customers.begin_export(tx, account_id, every=EXPORT_EVERY)
        now = tx.now
    if last is not None:
        metrics.LIMITED.labels("exports").inc()
        wait = (last + EXPORT_EVERY - now).total_seconds()
        raise RateLimited(retry_after_seconds=max(1, math.ceil(wait)))


async def note_export(runtime: Runtime, customer_id: str, *, operator_id: str | None) -> None:
    """Write the audit row of an export that an operator or the command line makes. Raises NotFound."""
    async with runtime.transaction() as tx:
        if not await customers.rows_of(tx, customer_id):
            raise NotFound
        await operators.audit(
            tx,
            operator_id=operator_id,
            action="customer.exported",
            object_type="customer",
            object_id=customer_id,
            before=None,
            after=None,
        )


async def operator_named(runtime: Runtime, email: str) -> str:
    """Return the id of the operator with this e-mail. Raises LookupError."""
    found = await operators.by_email(runtime.db, email)
    if found is None:
        raise LookupError(email)
    return found.id
