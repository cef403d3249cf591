"""Reads of prices and their histories, as operators see them."""

import datetime as dt
from typing import Any

import attrs

from core.base.errors import NotFound
from core.base.field_types import Id, Person
from core.base.pages import Items, Page, cut
from core.payments.pricing import admin_store
from core.payments.pricing.admin_store import FirstSessionPromotion, TierForOperators
from core.payments.pricing.rules import TierChangeKind
from core.runtime.container import Runtime
from core.storage.records import as_dict

_HISTORY = """SELECT
  h.id,
  h.change_kind,
  h.changed_by,
  o.display_name AS operator_name,
  h.changed_at,
  h.before,
  h.after{more}
FROM {table} AS h
LEFT JOIN control_center_users AS o ON o.id = h.changed_by
WHERE ($1::timestamptz IS NULL OR (h.changed_at, h.id) < ($1, $2::uuid)){of_one}
ORDER BY h.changed_at DESC, h.id DESC
LIMIT $3"""
TIER_HISTORY = _HISTORY.format(
    table="pricing_tiers_history", more=",\n  h.schedule", of_one=" AND h.pricing_tier_id = $4"
)
PROMOTION_HISTORY = _HISTORY.format(table="pricing_promotions_history", more="", of_one="")


@attrs.frozen(kw_only=True)
class Schedule:
    """A price that an operator asked for at `asked_at`, to start at `starts_at`."""

    price_idr: int
    starts_at: dt.datetime
    asked_at: dt.datetime


@attrs.frozen(kw_only=True)
class PriceChange:
    """One change of a price. `changed_by` is null for the service's own seed.

    For `scheduled`, `unscheduled` and `started`, `schedule` says which price was asked for, when, and for which time. A
    price that `started` was asked for by `changed_by`.
    """

    id: Id
    change_kind: TierChangeKind
    changed_by: Person | None
    changed_at: dt.datetime
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    schedule: Schedule | None = None


async def tiers(runtime: Runtime, *, mode: str | None) -> Items[TierForOperators]:
    """List all tiers, also deleted ones, by mode and in the operators' order."""
    return Items(items=await admin_store.tiers(runtime.db, mode=mode))


async def tier(runtime: Runtime, tier_id: str) -> TierForOperators:
    """Return a tier.

    Raises NotFound for an unknown id.
    """
    found = await admin_store.tier(runtime.db, tier_id)
    if found is None:
        raise NotFound
    return found


async def promotion(runtime: Runtime) -> FirstSessionPromotion:
    """Return the first-session discount.

    Raises NotFound if it does not exist.
    """
    found = await admin_store.promotion(runtime.db)
    if found is None:
        raise NotFound
    return found


def _schedule(row: dict[str, Any] | None) -> Schedule | None:
    if row is None:
        return None
    starts_at, asked_at = (dt.datetime.fromisoformat(row[name]) for name in ("starts_at", "asked_at"))
    return Schedule(price_idr=row["price_idr"], starts_at=starts_at, asked_at=asked_at)


async def _history(runtime: Runtime, page: Page, statement: str, *args: Any) -> Items[PriceChange]:
    rows = await runtime.db.fetch(statement, page.before_at, page.before_id, page.limit + 1, *args)
    found = []
    for row in rows:
        values = as_dict(row)
        by, name = values.pop("changed_by"), values.pop("operator_name")
        schedule = _schedule(values.pop("schedule", None))
        person = Person(id=by, display_name=name) if by else None
        found.append(PriceChange(**values, changed_by=person, schedule=schedule))
    return cut(found, page, at="changed_at")


async def tier_history(runtime: Runtime, tier_id: str, page: Page) -> Items[PriceChange]:
    """List the changes of a tier, newest first.

    Raises NotFound for an unknown id.
    """
    await tier(runtime, tier_id)
    return await _history(runtime, page, TIER_HISTORY, tier_id)


async def promotion_history(runtime: Runtime, page: Page) -> Items[PriceChange]:
    """List the changes of the first-session discount, newest first."""
    return await _history(runtime, page, PROMOTION_HISTORY)
