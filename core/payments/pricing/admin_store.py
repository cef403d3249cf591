"""Operators' reads and writes of prices (docs/product.md#tiers).

`updated_at` is the version token of optimistic locking: its text, with microseconds. Each write makes it greater, so a
token is never used twice. Each write adds a history row; a trigger refuses a commit that changes a price without one.
"""

import datetime as dt
from typing import Any

import attrs

from core.base import ids
from core.base.clock import as_text
from core.base.field_types import Mode, TierId
from core.payments.pricing.store import FIRST_SESSION
from core.payments.pricing.tables import PricingPromotion as Promotions
from core.payments.pricing.tables import PricingPromotionHistory as PromotionHistory
from core.payments.pricing.tables import PricingTier as Tiers
from core.payments.pricing.tables import PricingTierHistory as TierHistory
from core.storage import sql_files
from core.storage.records import many
from core.storage.statements import columns_of, insert, p, statement
from core.storage.transaction import Reader, Tx


def _token(value: Any) -> str:
    return as_text(value) if isinstance(value, dt.datetime) else value


@attrs.frozen(kw_only=True)
class TierForOperators:
    """A price for a number of minutes in one mode. Send `updated_at` back with the next change."""

    id: TierId
    mode: Mode
    minutes: int
    price_idr: int
    tag: str | None
    sort_order: int
    is_active: bool
    updated_at: str = attrs.field(converter=_token)


@attrs.frozen(kw_only=True)
class FirstSessionPromotion:
    """The first-session discount. Send `updated_at` back with the next change."""

    enabled: bool
    price_idr: int
    gimmick_price_idr: int
    duration_minutes: int
    modes: list[Mode]
    updated_at: str = attrs.field(converter=_token)


SQL = sql_files.load(__file__)
TIER = statement(Tiers.select(*columns_of(Tiers, TierForOperators)).where(Tiers.id == p.id), TierForOperators)
TIER_OF = statement(Tiers.select(Tiers.id).where(Tiers.mode == p.mode, Tiers.minutes == p.minutes))
PROMOTION = statement(
    Promotions.select(*columns_of(Promotions, FirstSessionPromotion)).where(Promotions.key == FIRST_SESSION),
    FirstSessionPromotion,
)
LOCK_PROMOTION = statement(Promotions.select(Promotions.id).where(Promotions.key == FIRST_SESSION).lock_rows("UPDATE"))
TIER_CHANGED = statement(insert(TierHistory, "id pricing_tier_id change_kind changed_by changed_at before after"))
PROMOTION_CHANGED = statement(
    insert(PromotionHistory, "id pricing_promotion_id changed_by changed_at before after", change_kind="updated")
)
# Sets columns of a locked row ($1) and renews its version token; returns the row before and after as JSON.
SET = """
  WITH old AS (
    SELECT id, to_jsonb(t) AS before
    FROM {table} t
    WHERE id = $1
  )
  UPDATE {table} t
  SET {columns}, updated_at = greatest($2::timestamptz, t.updated_at + interval '1 microsecond')
  FROM old
  WHERE t.id = old.id
  RETURNING old.before, to_jsonb(t) AS after
"""


async def tiers(reader: Reader, *, mode: str | None = None) -> list[TierForOperators]:
    """Return all tiers (of one mode, if given), also deleted ones, in the operators' order."""
    return many(TierForOperators, await reader.fetch(SQL["tiers"], mode))


async def tier(reader: Reader, tier_id: str) -> TierForOperators | None:
    """Return a tier, also a deleted one; None for an unknown id."""
    return await TIER.first(reader, id=tier_id)


async def lock_tiers(tx: Tx, tier_ids: list[str]) -> dict[str, TierForOperators]:
    """Lock tiers, in id order, and return them by id."""
    return {row.id: row for row in many(TierForOperators, await tx.fetch(SQL["lock_tiers"], tier_ids))}


async def tier_of(reader: Reader, *, mode: str, minutes: int) -> str | None:
    """Return the id of the tier for (mode, minutes), also of a deleted one, or None."""
    return await TIER_OF.value(reader, mode=mode, minutes=minutes)


async def create_tier(
    tx: Tx, *, mode: str, minutes: int, price_idr: int, tag: str | None, sort_order: int | None, operator_id: str
) -> str | None:
    """Insert a tier at `sort_order`, or after the last one of its mode; return its id, or None if (mode, minutes) is
    taken."""
    tier_id = ids.new_id()
    after = await tx.fetchval(SQL["create_tier"], tier_id, mode, minutes, price_idr, tag, sort_order, tx.now)
    if after is None:
        return None
    await _tier_history(tx, tier_id, "created", operator_id, None, after)
    return tier_id


async def _set(tx: Tx, table: str, row_id: str, values: dict[str, Any]) -> tuple[Any, Any]:
    """Set columns of a locked row and renew its version token. Return the row (before, after) as JSON objects."""
    columns = ", ".join(f"{name} = ${n}" for n, name in enumerate(values, start=3))
    row = await tx.fetchrow(SET.format(table=table, columns=columns), row_id, tx.now, *values.values())
    return row["before"], row["after"]


async def change_tier(tx: Tx, tier_id: str, *, kind: str, operator_id: str, **values: Any) -> None:
    """Set columns of a locked tier, renew its version token and add the history row."""
    before, after = await _set(tx, "pricing_tiers", tier_id, values)
    await _tier_history(tx, tier_id, kind, operator_id, before, after)


async def _tier_history(tx: Tx, tier_id: str, kind: str, operator_id: str, before: Any, after: Any) -> None:
    await TIER_CHANGED.execute(
        tx,
        id=ids.new_id(),
        pricing_tier_id=tier_id,
        change_kind=kind,
        changed_by=operator_id,
        changed_at=tx.now,
        before=before,
        after=after,
    )


async def promotion(reader: Reader) -> FirstSessionPromotion | None:
    """Return the first-session discount, or None."""
    return await PROMOTION.first(reader)


async def lock_promotion(tx: Tx) -> tuple[str, FirstSessionPromotion] | None:
    """Lock the first-session discount and return (its id, its values), or None."""
    promotion_id = await LOCK_PROMOTION.value(tx)
    return None if promotion_id is None else (promotion_id, await PROMOTION.one(tx))


async def change_promotion(tx: Tx, promotion_id: str, *, operator_id: str, **values: Any) -> None:
    """Set columns of the locked promotion, renew its version token and add the history row."""
    before, after = await _set(tx, "pricing_promotions", promotion_id, values)
    await PROMOTION_CHANGED.execute(
        tx,
        id=ids.new_id(),
        pricing_promotion_id=promotion_id,
        changed_by=operator_id,
        changed_at=tx.now,
        before=before,
        after=after,
    )
