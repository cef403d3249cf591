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
from core.pricing.store import FIRST_SESSION
from core.storage.database import Tx
from core.storage.reads import Reader
from core.storage.records import as_dict, many, one

TIER = "id, mode, minutes, price_idr, tag, sort_order, is_active, updated_at"
PROMOTION = "id, enabled, price_idr, gimmick_price_idr, duration_minutes, modes, updated_at"


def _token(value: Any) -> str:
    return as_text(value) if isinstance(value, dt.datetime) else value


@attrs.frozen(kw_only=True)
class TierRow:
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
class PromotionRow:
    """The first-session discount. Send `updated_at` back with the next change."""

    enabled: bool
    price_idr: int
    gimmick_price_idr: int
    duration_minutes: int
    modes: list[Mode]
    updated_at: str = attrs.field(converter=_token)


async def tiers(reader: Reader, *, mode: str | None = None) -> list[TierRow]:
    """Return all tiers (of one mode, if given), also deleted ones, in the operators' order."""
    sql = f"SELECT {TIER} FROM pricing_tiers WHERE $1::text IS NULL OR mode = $1 ORDER BY mode, sort_order, minutes"
    return many(TierRow, await reader.fetch(sql, mode))


async def tier(reader: Reader, tier_id: str) -> TierRow | None:
    """Return a tier, also a deleted one; None for an unknown id."""
    return one(TierRow, await reader.fetchrow(f"SELECT {TIER} FROM pricing_tiers WHERE id = $1", tier_id))


async def lock_tiers(tx: Tx, tier_ids: list[str]) -> dict[str, TierRow]:
    """Lock tiers, in id order, and return them by id."""
    sql = f"SELECT {TIER} FROM pricing_tiers WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE"
    return {row.id: row for row in many(TierRow, await tx.fetch(sql, tier_ids))}


async def tier_of(reader: Reader, *, mode: str, minutes: int) -> str | None:
    """Return the id of the tier for (mode, minutes), also of a deleted one, or None."""
    found = await reader.fetchval("SELECT id FROM pricing_tiers WHERE mode = $1 AND minutes = $2", mode, minutes)
    return str(found) if found else None


async def create_tier(
    tx: Tx, *, mode: str, minutes: int, price_idr: int, tag: str | None, sort_order: int | None, operator_id: str
) -> str | None:  # fmt: skip
    """Insert a tier at `sort_order`, or after the last one of its mode; return its id, or None if (mode, minutes) is
    taken."""
    tier_id = ids.new_id()
    row = await tx.fetchrow(
        """INSERT INTO pricing_tiers (id, mode, minutes, price_idr, tag, sort_order, created_at, updated_at)
           VALUES ($1, $2::text, $3, $4, $5, coalesce($6, (SELECT coalesce(max(sort_order) + 1, 0) FROM pricing_tiers WHERE mode = $2::text)), $7, $7)
           ON CONFLICT (mode, minutes) DO NOTHING RETURNING to_jsonb(pricing_tiers) AS after""",
        tier_id, mode, minutes, price_idr, tag, sort_order, tx.now,
    )  # fmt: skip
    if row is None:
        return None
    await _tier_history(tx, tier_id, "created", operator_id, None, row["after"])
    return tier_id


async def _set(tx: Tx, table: str, row_id: str, values: dict[str, Any]) -> tuple[Any, Any]:
    """Set columns of a locked row and renew its version token. Return the row (before, after) as JSON objects."""
    columns = ", ".join(f"{name} = ${n}" for n, name in enumerate(values, start=3))
    row = await tx.fetchrow(
        f"""WITH old AS (SELECT id, to_jsonb(t) AS before FROM {table} t WHERE id = $1)
            UPDATE {table} t SET {columns}, updated_at = greatest($2::timestamptz, t.updated_at + interval '1 microsecond')
            FROM old WHERE t.id = old.id RETURNING old.before, to_jsonb(t) AS after""",
        row_id, tx.now, *values.values(),
    )  # fmt: skip
    return row["before"], row["after"]


async def change_tier(tx: Tx, tier_id: str, *, kind: str, operator_id: str, **values: Any) -> None:
    """Set columns of a locked tier, renew its version token and add the history row."""
    before, after = await _set(tx, "pricing_tiers", tier_id, values)
    await _tier_history(tx, tier_id, kind, operator_id, before, after)


async def _tier_history(tx: Tx, tier_id: str, kind: str, operator_id: str, before: Any, after: Any) -> None:
    await tx.execute(
        """INSERT INTO pricing_tiers_history (id, pricing_tier_id, change_kind, changed_by, changed_at, before, after)
           VALUES ($1, $2, $3, $4, $5, $6, $7)""",
        ids.new_id(), tier_id, kind, operator_id, tx.now, before, after,
    )  # fmt: skip


async def promotion(reader: Reader) -> PromotionRow | None:
    """Return the first-session discount, or None."""
    row = await reader.fetchrow(f"SELECT {PROMOTION} FROM pricing_promotions WHERE key = $1", FIRST_SESSION)
    return None if row is None else PromotionRow(**{k: v for k, v in as_dict(row).items() if k != "id"})


async def lock_promotion(tx: Tx) -> tuple[str, PromotionRow] | None:
    """Lock the first-session discount and return (its id, its values), or None."""
    row = await tx.fetchrow(f"SELECT {PROMOTION} FROM pricing_promotions WHERE key = $1 FOR UPDATE", FIRST_SESSION)
    if row is None:
        return None
    values = as_dict(row)
    return values.pop("id"), PromotionRow(**values)


async def change_promotion(tx: Tx, promotion_id: str, *, operator_id: str, **values: Any) -> None:
    """Set columns of the locked promotion, renew its version token and add the history row."""
    before, after = await _set(tx, "pricing_promotions", promotion_id, values)
    await tx.execute(
        """INSERT INTO pricing_promotions_history (id, pricing_promotion_id, change_kind, changed_by, changed_at, before, after)
           VALUES ($1, $2, 'updated', $3, $4, $5, $6)""",
        ids.new_id(), promotion_id, operator_id, tx.now, before, after,
    )  # fmt: skip
