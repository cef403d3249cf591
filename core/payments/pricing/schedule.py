"""Prices at a time (docs/product.md#prices-at-a-time): operators ask for them, and the jobs process sets them.

Each step first locks the tier, as an edit does. So a schedule is either started or cancelled, and the prices of a tier
start in order, however many jobs processes there are.
"""

import datetime as dt

from core.accounts.operators import store as operators
from core.base.actor import Actor
from core.base.errors import NotFound, ValidationFailed
from core.base.languages import Text
from core.deliveries import events
from core.payments.pricing import admin_store
from core.payments.pricing.edit import fresh
from core.payments.pricing.rules import PriceScheduled, TierNotFound
from core.runtime.container import Runtime


async def schedule(
    runtime: Runtime, actor: Actor, *, tier_id: str, token: str, price_idr: int, starts_at: dt.datetime
) -> None:
    """Give a tier another price at a time.

    Raises NotFound, StaleWrite, TierNotFound, ValidationFailed, PriceScheduled.
    """
    async with runtime.transaction() as tx:
        before = await fresh(tx, tier_id, token)
        if not before.is_active:
            raise TierNotFound
        if starts_at <= tx.now:
            raise ValidationFailed.of("starts_at", Text(en="must be in the future", id="harus di masa depan"))
        made = await admin_store.add_schedule(
            tx, tier_id, price_idr=price_idr, starts_at=starts_at, operator_id=actor.user_id
        )
        if made is None:
            raise PriceScheduled(details={"id": await admin_store.schedule_at(tx, tier_id, starts_at)})
        await admin_store.change_tier(tx, tier_id, kind="scheduled", operator_id=actor.user_id, schedule=made)
        after = {"price_idr": price_idr, "starts_at": made["starts_at"]}
        await operators.audit(tx, actor.user_id, "tier.scheduled", "pricing_tier", tier_id, after=after)
        events.deadline(tx, starts_at)


async def cancel(runtime: Runtime, actor: Actor, *, tier_id: str, schedule_id: str) -> None:
    """Cancel a scheduled price. Raises NotFound, also if the price has started."""
    async with runtime.transaction() as tx:
        await admin_store.lock_tiers(tx, [tier_id])
        gone = await admin_store.delete_schedule(tx, tier_id, schedule_id)
        if gone is None:
            raise NotFound
        await admin_store.change_tier(tx, tier_id, kind="unscheduled", operator_id=actor.user_id, schedule=gone)
        before = {name: gone[name] for name in ("price_idr", "starts_at")}
        await operators.audit(tx, actor.user_id, "tier.unscheduled", "pricing_tier", tier_id, before=before)


async def start_due(runtime: Runtime) -> int:
    """Set the scheduled prices whose time has come, each in its own transaction; return how many.

    The history names who asked, when, for which time, and when the price began.
    """
    started = 0
    while (tier_id := await admin_store.due_tier(runtime.db, now=runtime.now())) is not None:
        async with runtime.transaction() as tx:
            await admin_store.lock_tiers(tx, [tier_id])
            due = await admin_store.take_due(tx, tier_id)
            if due is not None:
                await admin_store.change_tier(
                    tx,
                    tier_id,
                    kind="started",
                    operator_id=due.asked_by,
                    schedule=due.schedule,
                    price_idr=due.price_idr,
                )
                started += 1
    return started
