"""Operators edit prices (docs/product.md#tiers). Each write carries the version (`updated_at`) that the operator saw.

An edit never changes existing payment requests: their price is fixed when they are created.
"""

from typing import Any

import attrs

from core.accounts.operators import store as operators
from core.base.actor import Actor
from core.base.clock import as_text
from core.base.errors import NotFound, ValidationFailed
from core.base.languages import Text
from core.payments.pricing import admin_store
from core.payments.pricing.admin_store import TierForOperators
from core.payments.pricing.rules import ChangeKind, StaleWrite, TierExists, checked_tag
from core.runtime.container import Runtime
from core.storage.transaction import Tx


def _seen(tier: TierForOperators) -> dict[str, Any]:
    """Return a tier as audit rows have it: of its scheduled prices, only those and their times."""
    scheduled = [{"price_idr": one.price_idr, "starts_at": as_text(one.starts_at)} for one in tier.scheduled]
    return {**attrs.asdict(tier), "scheduled": scheduled}


async def fresh(tx: Tx, tier_id: str, token: str) -> TierForOperators:
    """Lock a tier and check that its version is the one that the operator saw. Raises NotFound, StaleWrite."""
    found = (await admin_store.lock_tiers(tx, [tier_id])).get(tier_id)
    if found is None:
        raise NotFound
    if found.updated_at != token:
        raise StaleWrite(details={"current": attrs.asdict(found)})
    return found


async def _audit(tx: Tx, actor: Actor, action: str, object_id: str, before: Any, after: Any) -> None:
    await operators.audit(
        tx,
        actor.user_id,
        action,
        "pricing_promotion" if action.startswith("promotion") else "pricing_tier",
        object_id,
        before=before,
        after=after,
    )


async def add_tier(
    runtime: Runtime, actor: Actor, *, mode: str, minutes: int, price_idr: int, tag: str | None, sort_order: int | None
) -> str:
    """Add a tier and return its id. Raises ValidationFailed, and TierExists with the id of the existing tier."""
    tag = checked_tag(tag)
    async with runtime.transaction() as tx:
        tier_id = await admin_store.create_tier(
            tx,
            mode=mode,
            minutes=minutes,
            price_idr=price_idr,
            tag=tag,
            sort_order=sort_order,
            operator_id=actor.user_id,
        )
        if tier_id is None:
            raise TierExists(details={"id": await admin_store.tier_of(tx, mode=mode, minutes=minutes)})
        made = await admin_store.tier(tx, tier_id)
        assert made is not None
        await _audit(tx, actor, "tier.created", tier_id, None, _seen(made))
    return tier_id


async def change_tier(runtime: Runtime, actor: Actor, *, tier_id: str, token: str, values: dict[str, Any]) -> None:
    """Set a tier's price, tag or position. Raises NotFound, StaleWrite, ValidationFailed."""
    if "tag" in values:
        values = {**values, "tag": checked_tag(values["tag"])}
    await _change(runtime, actor, tier_id, token, "updated", values)


async def delete_tier(runtime: Runtime, actor: Actor, *, tier_id: str, token: str) -> None:
    """Remove a tier from the price list, and cancel its scheduled prices. It can be reactivated.

    Raises NotFound, StaleWrite.
    """
    await _change(runtime, actor, tier_id, token, "deleted", {"is_active": False})


async def reactivate_tier(runtime: Runtime, actor: Actor, *, tier_id: str, token: str) -> None:
    """Put a deleted tier back on the price list. Raises NotFound, StaleWrite."""
    await _change(runtime, actor, tier_id, token, "reactivated", {"is_active": True})


async def _change(
    runtime: Runtime, actor: Actor, tier_id: str, token: str, kind: ChangeKind, values: dict[str, Any]
) -> None:
    async with runtime.transaction() as tx:
        before = await fresh(tx, tier_id, token)
        if all(getattr(before, name) == value for name, value in values.items()):
            return  # nothing changes, so the version must not change either
        if kind == "deleted":
            await admin_store.delete_schedules(tx, tier_id)
        await admin_store.change_tier(tx, tier_id, kind=kind, operator_id=actor.user_id, **values)
        after = await admin_store.tier(tx, tier_id)
        assert after is not None
        await _audit(tx, actor, f"tier.{kind}", tier_id, _seen(before), _seen(after))


@attrs.frozen(kw_only=True)
class TierPosition:
    """A tier in the wanted order, with the version that the operator saw."""

    id: str
    updated_at: str


async def order_tiers(runtime: Runtime, actor: Actor, *, mode: str, items: list[TierPosition]) -> None:
    """Set the order of a mode's tiers, all or none. Raises ValidationFailed, NotFound, StaleWrite."""
    wanted = [place.id for place in items]
    if len(set(wanted)) < len(wanted):
        raise ValidationFailed.of(
            "items", Text(en="must not contain a tier twice", id="tidak boleh memuat satu harga dua kali")
        )
    async with runtime.transaction() as tx:
        known = {tier.id: tier for tier in await admin_store.tiers(tx, mode=mode)}
        if any(tier_id not in known for tier_id in wanted):
            raise NotFound
        missing = [tier.id for tier in known.values() if tier.is_active and tier.id not in wanted]
        if missing:
            raise ValidationFailed.of(
                "items",
                Text(en="must contain every active tier of the mode", id="harus menyebut setiap harga aktif jenis ini"),
            )
        locked = await admin_store.lock_tiers(tx, wanted)
        for place in items:
            if locked[place.id].updated_at != place.updated_at:
                raise StaleWrite(details={"current": attrs.asdict(locked[place.id])})
        moved = [(place.id, order) for order, place in enumerate(items) if locked[place.id].sort_order != order]
        for tier_id, order in moved:
            await admin_store.change_tier(tx, tier_id, kind="reordered", operator_id=actor.user_id, sort_order=order)
        if moved:
            await _audit(tx, actor, "tier.reordered", mode, [i for i in known if i in set(wanted)], wanted)


async def change_promotion(runtime: Runtime, actor: Actor, *, token: str, values: dict[str, Any]) -> None:
    """Change the first-session discount. Raises StaleWrite, and NotFound if it was never added (`sesi seed tiers`)."""
    async with runtime.transaction() as tx:
        found = await admin_store.lock_promotion(tx)
        if found is None:
            raise NotFound
        promotion_id, before = found
        if before.updated_at != token:
            raise StaleWrite(details={"current": attrs.asdict(before)})
        if all(getattr(before, name) == value for name, value in values.items()):
            return
        await admin_store.change_promotion(tx, promotion_id, operator_id=actor.user_id, **values)
        after = await admin_store.promotion(tx)
        assert after is not None
        await _audit(tx, actor, "promotion.updated", promotion_id, attrs.asdict(before), attrs.asdict(after))
