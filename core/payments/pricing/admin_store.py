"""Operators' reads and writes of prices and of their schedules (docs/product.md#tiers).

`updated_at` is the version token of optimistic locking: its text, with microseconds. Each write makes it greater, so a
token is never used twice. Each write adds a history row; a trigger refuses a commit that changes a price without one.
"""

import datetime as dt
from typing import Any

import attrs

from core.base import ids
from core.base.clock import as_text
from core.base.field_types import Id, Mode, Person, TierId
from core.payments.pricing.rules import TierChangeKind
from core.payments.pricing.store import FIRST_SESSION
from core.payments.pricing.tables import PricingPromotion as Promotions
from core.payments.pricing.tables import PricingPromotionHistory as PromotionHistory
from core.payments.pricing.tables import PricingTier as Tiers
from core.payments.pricing.tables import PricingTierHistory as TierHistory
from core.storage import sql_files
from core.storage.records import as_dict, many, one, plain
from core.storage.statements import columns_of, insert, p, statement
from core.storage.transaction import Reader, Tx


def _token(value: Any) -> str:
    return as_text(value) if isinstance(value, dt.datetime) else value


@attrs.frozen(kw_only=True)
class ScheduledPrice:
    """A price that a tier gets at `starts_at`, who asked for it, and when."""

    id: Id
    price_idr: int
    starts_at: dt.datetime
    asked_by: Person
    asked_at: dt.datetime


@attrs.frozen(kw_only=True)
class DuePrice:
    """A scheduled price whose time has come, with its row as JSON for the history."""

    price_idr: int
    asked_by: str
    schedule: Any


@attrs.frozen(kw_only=True)
class TierRow:
    """A tier as it is stored. `updated_at` is its version token."""

    id: TierId
    mode: Mode
    minutes: int
    price_idr: int
    tag: str | None
    sort_order: int
    is_active: bool
    updated_at: str = attrs.field(converter=_token)


@attrs.frozen(kw_only=True)
class TierForOperators(TierRow):
    """A price for a number of minutes in one mode. Send `updated_at` back with the next change.

    `scheduled` are the prices that the tier gets later, in order.
    """

    scheduled: list[ScheduledPrice]


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
TIER = statement(Tiers.select(*columns_of(Tiers, TierRow)).where(Tiers.id == p.id), TierRow)
TIER_OF = statement(Tiers.select(Tiers.id).where(Tiers.mode == p.mode, Tiers.minutes == p.minutes))
PROMOTION = statement(
    Promotions.select(*columns_of(Promotions, FirstSessionPromotion)).where(Promotions.key == FIRST_SESSION),
    FirstSessionPromotion,
)
LOCK_PROMOTION = statement(Promotions.select(Promotions.id).where(Promotions.key == FIRST_SESSION).lock_rows("UPDATE"))
TIER_CHANGED = statement(
    insert(TierHistory, "id pricing_tier_id change_kind changed_by changed_at before after schedule")
)
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
  SET {columns}updated_at = greatest($2::timestamptz, t.updated_at + interval '1 microsecond')
  FROM old
  WHERE t.id = old.id
  RETURNING old.before, to_jsonb(t) AS after
"""


async def tiers(reader: Reader, *, mode: str | None = None) -> list[TierForOperators]:
    """Return all tiers (of one mode, if given), also deleted ones, in the operators' order."""
    return await _with_schedules(reader, many(TierRow, await reader.fetch(SQL["tiers"], mode)))


async def tier(reader: Reader, tier_id: str) -> TierForOperators | None:
    """Return a tier, also a deleted one; None for an unknown id."""
    found = await TIER.first(reader, id=tier_id)
    return None if found is None else (await _with_schedules(reader, [found]))[0]


async def lock_tiers(tx: Tx, tier_ids: list[str]) -> dict[str, TierForOperators]:
    """Lock tiers, in id order, and return them by id. The lock holds their schedules, too."""
    locked = many(TierRow, await tx.fetch(SQL["lock_tiers"], tier_ids))
    return {row.id: row for row in await _with_schedules(tx, locked)}


async def _with_schedules(reader: Reader, rows: list[TierRow]) -> list[TierForOperators]:
    scheduled: dict[str, list[ScheduledPrice]] = {row.id: [] for row in rows}
    for row in await reader.fetch(SQL["schedules"], list(scheduled)):
        values = as_dict(row)
        by = Person(id=values.pop("asked_by"), display_name=values.pop("operator_name"))
        scheduled[values.pop("pricing_tier_id")].append(ScheduledPrice(**values, asked_by=by))
    return [TierForOperators(**attrs.asdict(row), scheduled=scheduled[row.id]) for row in rows]


async def add_schedule(tx: Tx, tier_id: str, *, price_idr: int, starts_at: dt.datetime, operator_id: str) -> Any:
    """Give a locked, active tier a price at a time. Return the row as JSON, or None if its minute is taken."""
    return await tx.fetchval(SQL["add_schedule"], ids.new_id(), tier_id, price_idr, starts_at, operator_id, tx.now)


async def schedule_at(reader: Reader, tier_id: str, starts_at: dt.datetime) -> str | None:
    """Return the id of the schedule of a tier in the minute of `starts_at`, or None."""
    return plain(await reader.fetchval(SQL["schedule_at"], tier_id, starts_at))


async def delete_schedule(tx: Tx, tier_id: str, schedule_id: str) -> Any:
    """Delete a schedule of a locked tier. Return the row as JSON, or None if it has started or is gone."""
    return await tx.fetchval(SQL["delete_schedule"], tier_id, schedule_id)


async def delete_schedules(tx: Tx, tier_id: str) -> None:
    """Delete all schedules of a locked tier."""
    await tx.execute(SQL["delete_schedules"], tier_id)


async def due_tier(reader: Reader, *, now: dt.datetime) -> str | None:
    """Return the id of the tier whose scheduled price was due first, or None."""
    return plain(await reader.fetchval(SQL["due_tier"], now))


async def take_due(tx: Tx, tier_id: str) -> DuePrice | None:
    """Delete the earliest due schedule of a locked tier and return it; None if another process or operator did."""
    return one(DuePrice, await tx.fetchrow(SQL["take_due"], tier_id, tx.now))


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
    columns = "".join(f"{name} = ${n}, " for n, name in enumerate(values, start=3))
    row = await tx.fetchrow(SET.format(table=table, columns=columns), row_id, tx.now, *values.values())
    return row["before"], row["after"]


async def change_tier(
    tx: Tx, tier_id: str, *, kind: TierChangeKind, operator_id: str, schedule: Any = None, **values: Any
) -> None:
    """Set columns of a locked tier, renew its version token and add the history row, with the schedule behind it."""
    before, after = await _set(tx, "pricing_tiers", tier_id, values)
    await _tier_history(tx, tier_id, kind, operator_id, before, after, schedule)


async def _tier_history(
    tx: Tx, tier_id: str, kind: TierChangeKind, operator_id: str, before: Any, after: Any, schedule: Any = None
) -> None:
    await TIER_CHANGED.execute(
        tx,
        id=ids.new_id(),
        pricing_tier_id=tier_id,
        change_kind=kind,
        changed_by=operator_id,
        changed_at=tx.now,
        before=before,
        after=after,
        schedule=schedule,
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
