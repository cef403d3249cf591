"""Reads of prices, and the seed of the first prices with their history rows."""

import attrs

from core.base import ids
from core.base.field_types import Mode, TierId
from core.payments.pricing.rules import Past, Promotion
from core.payments.pricing.tables import PricingPromotion as Promotions
from core.payments.pricing.tables import PricingPromotionHistory as PromotionHistory
from core.payments.pricing.tables import PricingTier as Tiers
from core.payments.pricing.tables import PricingTierHistory as TierHistory
from core.storage import sql_files
from core.storage.statements import columns_of, insert, p, statement
from core.storage.transaction import Reader, Tx

FIRST_SESSION = "first_session_discount"


@attrs.frozen(kw_only=True)
class Tier:
    """A price as customers see it: `price_idr` Rupiah for `minutes` in one mode. `tag` is a label such as "popular"."""

    id: TierId
    mode: Mode
    minutes: int
    price_idr: int
    tag: str | None


SQL = sql_files.load(__file__)
ACTIVE_TIERS = statement(
    Tiers.select(*columns_of(Tiers, Tier))
    .where(Tiers.is_active.eq(True))
    .order_by(Tiers.mode, Tiers.sort_order, Tiers.minutes),
    Tier,
)
PRICE_OF = statement(
    Tiers.select(Tiers.price_idr).where(Tiers.mode == p.mode, Tiers.minutes == p.minutes, Tiers.is_active.eq(True))
)
PROMOTION = statement(
    Promotions.select(*columns_of(Promotions, Promotion)).where(Promotions.key == FIRST_SESSION), Promotion
)
TIER_CREATED = statement(insert(TierHistory, "id pricing_tier_id changed_at after", change_kind="created"))
PROMOTION_CREATED = statement(
    insert(PromotionHistory, "id pricing_promotion_id changed_at after", change_kind="created")
)


async def active_tiers(reader: Reader) -> list[Tier]:
    """Return all active tiers, in the operators' order."""
    return await ACTIVE_TIERS.all(reader)


async def price_of(reader: Reader, *, mode: str, minutes: int) -> int | None:
    """Return the price of (mode, minutes) in Rupiah; None without an active tier."""
    return await PRICE_OF.value(reader, mode=mode, minutes=minutes)


async def first_session(reader: Reader) -> Promotion | None:
    """Return the first-session discount, or None."""
    return await PROMOTION.first(reader)


async def past_of(reader: Reader, customer_ids: list[str], *, but_pending: bool, but: str | None = None) -> Past:
    """Return the facts that decide about the discount.

    `but_pending` leaves out pending requests, because a new request replaces them. `but` leaves out one request.
    """
    statuses = ["confirmed", "consumed"] if but_pending else ["pending", "confirmed", "consumed"]
    return Past(**dict(await reader.fetchrow(SQL["past_of"], customer_ids, statuses, but)))


async def seed_tier(tx: Tx, *, mode: str, minutes: int, price_idr: int, tag: str | None, sort_order: int) -> bool:
    """Add a tier with its history row.

    If (mode, minutes) exists, keep it, because it may be an operator's: return False.
    """
    tier_id = ids.new_id()
    after = await tx.fetchval(SQL["seed_tier"], tier_id, mode, minutes, price_idr, tag, sort_order, tx.now)
    if after is None:
        return False
    await TIER_CREATED.execute(tx, id=ids.new_id(), pricing_tier_id=tier_id, changed_at=tx.now, after=after)
    return True


async def seed_promotion(tx: Tx, promotion: Promotion) -> bool:
    """Add the first-session discount with its history row. Return False if it exists already."""
    promotion_id = ids.new_id()
    after = await tx.fetchval(
        SQL["seed_promotion"],
        promotion_id,
        FIRST_SESSION,
        promotion.enabled,
        promotion.price_idr,
        promotion.gimmick_price_idr,
        promotion.duration_minutes,
        promotion.modes,
        tx.now,
    )
    if after is None:
        return False
    await PROMOTION_CREATED.execute(
        tx, id=ids.new_id(), pricing_promotion_id=promotion_id, changed_at=tx.now, after=after
    )
    return True
