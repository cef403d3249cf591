"""Reads of prices, and the seed of the first prices with their history rows."""

import attrs

from core.base import ids
from core.base.field_types import Mode, TierId
from core.pricing.rules import Past, Promotion
from core.storage.database import Tx
from core.storage.reads import Reader
from core.storage.records import many, one

FIRST_SESSION = "first_session_discount"


@attrs.frozen(kw_only=True)
class Tier:
    """A price as customers see it: `price_idr` Rupiah for `minutes` in one mode. `tag` is a label such as "popular"."""

    id: TierId
    mode: Mode
    minutes: int
    price_idr: int
    tag: str | None


async def active_tiers(reader: Reader) -> list[Tier]:
    """Return all active tiers, in the operators' order."""
    return many(
        Tier,
        await reader.fetch(
            "SELECT id, mode, minutes, price_idr, tag FROM pricing_tiers WHERE is_active ORDER BY mode, sort_order, minutes"
        ),
    )


async def price_of(reader: Reader, *, mode: str, minutes: int) -> int | None:
    """Return the price of (mode, minutes) in Rupiah; None without an active tier."""
    return await reader.fetchval(
        "SELECT price_idr FROM pricing_tiers WHERE mode = $1 AND minutes = $2 AND is_active", mode, minutes
    )


async def first_session(reader: Reader) -> Promotion | None:
    """Return the first-session discount, or None."""
    return one(
        Promotion,
        await reader.fetchrow(
            "SELECT enabled, price_idr, gimmick_price_idr, duration_minutes, modes FROM pricing_promotions WHERE key = $1",
            FIRST_SESSION,
        ),
    )


async def past_of(reader: Reader, customer_ids: list[str], *, but_pending: bool, but: str | None = None) -> Past:
    """Return the facts that decide about the discount.

    `but_pending` leaves out pending requests, because a new request replaces them. `but` leaves out one request.
    """
    row = await reader.fetchrow(
        """SELECT EXISTS (SELECT 1 FROM chat_sessions WHERE customer_id = ANY($1) AND paired_at IS NOT NULL) AS ever_paired,
             EXISTS (SELECT 1 FROM payment_requests WHERE customer_id = ANY($1) AND is_first_session_discount
               AND status = ANY($2) AND id IS DISTINCT FROM $3) AS other_discounted_request,
             NOT EXISTS (SELECT 1 FROM customers WHERE id = ANY($1) AND NOT is_anonymous) AS anonymous""",
        customer_ids, ["confirmed", "consumed"] if but_pending else ["pending", "confirmed", "consumed"], but,
    )  # fmt: skip
    return Past(**dict(row))


async def seed_tier(tx: Tx, *, mode: str, minutes: int, price_idr: int, tag: str | None, sort_order: int) -> bool:
    """Add a tier with its history row.

    If (mode, minutes) exists, keep it, because it may be an operator's: return False.
    """
    tier_id = ids.new_id()
    row = await tx.fetchrow(
        """INSERT INTO pricing_tiers (id, mode, minutes, price_idr, tag, sort_order, created_at, updated_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $7) ON CONFLICT (mode, minutes) DO NOTHING
           RETURNING to_jsonb(pricing_tiers) AS after""",
        tier_id, mode, minutes, price_idr, tag, sort_order, tx.now,
    )  # fmt: skip
    if row is None:
        return False
    await tx.execute(
        """INSERT INTO pricing_tiers_history (id, pricing_tier_id, change_kind, changed_at, after) VALUES ($1, $2, 'created', $3, $4)""",
        ids.new_id(), tier_id, tx.now, row["after"],
    )  # fmt: skip
    return True


async def seed_promotion(tx: Tx, promotion: Promotion) -> bool:
    """Add the first-session discount with its history row. Return False if it exists already."""
    promotion_id = ids.new_id()
    row = await tx.fetchrow(
        """INSERT INTO pricing_promotions (id, key, enabled, price_idr, gimmick_price_idr, duration_minutes, modes, created_at, updated_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8) ON CONFLICT (key) DO NOTHING
           RETURNING to_jsonb(pricing_promotions) AS after""",
        promotion_id, FIRST_SESSION, promotion.enabled, promotion.price_idr, promotion.gimmick_price_idr,
        promotion.duration_minutes, promotion.modes, tx.now,
    )  # fmt: skip
    if row is None:
        return False
    await tx.execute(
        """INSERT INTO pricing_promotions_history (id, pricing_promotion_id, change_kind, changed_at, after)
           VALUES ($1, $2, 'created', $3, $4)""",
        ids.new_id(), promotion_id, tx.now, row["after"],
    )  # fmt: skip
    return True
