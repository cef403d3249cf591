"""Routes for tiers and the first-session discount. Every change sends the version token of the row (`updated_at`)."""

from typing import Any

import attrs
from attrs import validators
from litestar import delete, get, patch, post, put

from api.auth import operators
from api.parameters import path_id, query_time
from api.request_bodies import Body, JsonObject, integer, no_nulls, optional_integer, shown_text, structure, text
from core.base import field_messages
from core.base.actor import Actor
from core.base.errors import NotFound, ValidationFailed
from core.base.field_types import Mode, TierId
from core.base.pages import Items, read_page
from core.payments.pricing import edit as pricing_edit
from core.payments.pricing import schedule as price_schedule
from core.payments.pricing import views as prices
from core.payments.pricing.admin_store import FirstSessionPromotion, TierForOperators
from core.payments.pricing.edit import TierPosition
from core.payments.pricing.rules import (
    LONGEST_TAG,
    MAX_MINUTES,
    MODES,
    PriceScheduled,
    StaleWrite,
    TierExists,
    TierNotFound,
)
from core.runtime.container import Runtime

TOKEN = 64
MAX_ORDER = 1_000_000  # so that the position after the last one still fits the database's integer


@attrs.frozen(kw_only=True)
class TierBody:
    """A new tier. Without `sort_order` it becomes the last one of its mode."""

    mode: Mode
    minutes: int = integer(1, MAX_MINUTES)
    price_idr: int = integer(0)
    tag: str | None = shown_text(LONGEST_TAG, optional=True)
    sort_order: int | None = optional_integer(0, MAX_ORDER)


@attrs.frozen(kw_only=True)
class TierPatch:
    """Changes of a tier; absent fields stay unchanged, and a null `tag` removes the tag. Mode and minutes can't
    change."""

    updated_at: str = text(1, TOKEN)
    price_idr: int = integer(0, default=0)
    tag: str | None = shown_text(LONGEST_TAG, optional=True, schema={"type": ["string", "null"]})
    sort_order: int = integer(0, MAX_ORDER, default=0)


@attrs.frozen(kw_only=True)
class TokenBody:
    """The version token of the row, as it was read."""

    updated_at: str = text(1, TOKEN)


@attrs.frozen(kw_only=True)
class ScheduleBody:
    """A price that the tier gets at `starts_at`, which is in the future. `updated_at` is the tier's version token."""

    price_idr: int = integer(0)
    starts_at: str = text(1, 40, metadata={"schema": {"format": "date-time"}})
    updated_at: str = text(1, TOKEN)


@attrs.frozen(kw_only=True)
class PlaceBody:
    """A tier with its version token, as it was read."""

    id: TierId
    updated_at: str


@attrs.frozen(kw_only=True)
class OrderBody:
    """All active tiers of a mode, in their new order."""

    mode: Mode
    items: list[PlaceBody] = attrs.field(validator=validators.max_len(500))


def _check_modes(_: object, __: object, value: list[Mode]) -> None:
    if len(set(value)) < len(value) or not set(value) <= set(MODES):
        raise ValueError(field_messages.MODES)


@attrs.frozen(kw_only=True)
class PromotionPatch:
    """Changes of the first-session discount; absent fields stay unchanged."""

    updated_at: str = text(1, TOKEN)
    enabled: bool = False
    price_idr: int = integer(0, default=0)
    gimmick_price_idr: int = integer(0, default=0)
    duration_minutes: int = integer(1, MAX_MINUTES, default=1)
    modes: list[Mode] = attrs.field(
        factory=list,
        validator=[validators.max_len(len(MODES)), _check_modes],
        metadata={"schema": {"uniqueItems": True}},
    )


def _changes(data: dict[str, Any], body: Any, *, nullable: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the fields that were sent, without the version token.

    Raises ValidationFailed for nulls, except in the fields in `nullable`.
    """
    no_nulls(data, but=nullable)
    return {name: getattr(body, name) for name in data if name != "updated_at"}


@get("/internal/pricing/tiers", **operators("pricing"))
async def tiers(runtime: Runtime, mode: str | None = None) -> Items[TierForOperators]:
    """List all tiers, also deleted ones, by mode and in their order."""
    if mode is not None and mode not in MODES:
        raise ValidationFailed.of("mode", field_messages.one_of(MODES))
    return await prices.tiers(runtime, mode=mode)


@post(
    "/internal/pricing/tiers",
    status_code=201,
    dto=Body[TierBody],
    return_dto=None,
    **operators("pricing", "write", TierExists),
)
async def add_tier(data: TierBody, runtime: Runtime, actor: Actor) -> TierForOperators:
    """Add a tier."""
    tier_id = await pricing_edit.add_tier(
        runtime,
        actor,
        mode=data.mode,
        minutes=data.minutes,
        price_idr=data.price_idr,
        tag=data.tag,
        sort_order=data.sort_order,
    )
    return await prices.tier(runtime, tier_id)


@patch(
    "/internal/pricing/tiers/{tier_id:str}",
    dto=JsonObject,
    return_dto=None,
    body=TierPatch,
    **operators("pricing", "write", StaleWrite),
)
async def change_tier(tier_id: str, data: dict[str, Any], runtime: Runtime, actor: Actor) -> TierForOperators:
    """Change the price, tag or position of a tier."""
    found = path_id(tier_id)
    body = structure(data, TierPatch)
    values = _changes(data, body, nullable=("tag",))
    await pricing_edit.change_tier(runtime, actor, tier_id=found, token=body.updated_at, values=values)
    return await prices.tier(runtime, found)


@delete("/internal/pricing/tiers/{tier_id:str}", status_code=200, **operators("pricing", "write", StaleWrite))
async def delete_tier(tier_id: str, runtime: Runtime, actor: Actor, updated_at: str | None = None) -> TierForOperators:
    """Delete a tier.

    It can be reactivated. `updated_at` is the version token of the tier, as it was read.
    """
    found = path_id(tier_id)
    if updated_at is None:
        raise ValidationFailed.of("updated_at", field_messages.REQUIRED)
    await pricing_edit.delete_tier(runtime, actor, tier_id=found, token=updated_at)
    return await prices.tier(runtime, found)


@post(
    "/internal/pricing/tiers/{tier_id:str}/reactivate",
    status_code=200,
    dto=Body[TokenBody],
    return_dto=None,
    **operators("pricing", "write", StaleWrite),
)
async def reactivate_tier(tier_id: str, data: TokenBody, runtime: Runtime, actor: Actor) -> TierForOperators:
    """Reactivate a deleted tier."""
    found = path_id(tier_id)
    await pricing_edit.reactivate_tier(runtime, actor, tier_id=found, token=data.updated_at)
    return await prices.tier(runtime, found)


@post(
    "/internal/pricing/tiers/{tier_id:str}/schedule",
    status_code=201,
    dto=Body[ScheduleBody],
    return_dto=None,
    **operators("pricing", "write", StaleWrite, TierNotFound, PriceScheduled),
)
async def schedule_price(tier_id: str, data: ScheduleBody, runtime: Runtime, actor: Actor) -> TierForOperators:
    """Give a tier another price at a time.

    Edits and a new order keep it; deleting the tier cancels it. Payment requests from before keep their price.
    """
    found, starts_at = path_id(tier_id), query_time("starts_at", data.starts_at)
    assert starts_at is not None
    await price_schedule.schedule(
        runtime, actor, tier_id=found, token=data.updated_at, price_idr=data.price_idr, starts_at=starts_at
    )
    return await prices.tier(runtime, found)


@delete(
    "/internal/pricing/tiers/{tier_id:str}/schedule/{schedule_id:str}", status_code=200, **operators("pricing", "write")
)
async def cancel_price(tier_id: str, schedule_id: str, runtime: Runtime, actor: Actor) -> TierForOperators:
    """Cancel a scheduled price that has not started."""
    found = path_id(tier_id)
    await price_schedule.cancel(runtime, actor, tier_id=found, schedule_id=path_id(schedule_id))
    return await prices.tier(runtime, found)


@put(
    "/internal/pricing/tiers/order",
    dto=Body[OrderBody],
    return_dto=None,
    **operators("pricing", "write", StaleWrite, NotFound),
)
async def order_tiers(data: OrderBody, runtime: Runtime, actor: Actor) -> Items[TierForOperators]:
    """Set the order of all active tiers of a mode.

    If one of the version tokens is old, nothing changes.
    """
    items = [TierPosition(id=item.id, updated_at=item.updated_at) for item in data.items]
    await pricing_edit.order_tiers(runtime, actor, mode=data.mode, items=items)
    return await prices.tiers(runtime, mode=data.mode)


@get("/internal/pricing/tiers/{tier_id:str}/history", **operators("pricing"))
async def tier_history(
    tier_id: str, runtime: Runtime, cursor: str | None = None, limit: int | None = None
) -> Items[prices.PriceChange]:
    """List the changes of a tier, newest first."""
    return await prices.tier_history(runtime, path_id(tier_id), read_page(cursor, limit))


@get("/internal/pricing/promotions/first-session", **operators("pricing", "read", NotFound))
async def promotion(runtime: Runtime) -> FirstSessionPromotion:
    """Return the first-session discount."""
    return await prices.promotion(runtime)


@patch(
    "/internal/pricing/promotions/first-session",
    dto=JsonObject,
    return_dto=None,
    body=PromotionPatch,
    **operators("pricing", "write", StaleWrite, NotFound),
)
async def change_promotion(data: dict[str, Any], runtime: Runtime, actor: Actor) -> FirstSessionPromotion:
    """Change the first-session discount."""
    body = structure(data, PromotionPatch)
    await pricing_edit.change_promotion(runtime, actor, token=body.updated_at, values=_changes(data, body))
    return await prices.promotion(runtime)


@get("/internal/pricing/promotions/first-session/history", **operators("pricing"))
async def promotion_history(
    runtime: Runtime, cursor: str | None = None, limit: int | None = None
) -> Items[prices.PriceChange]:
    """List the changes of the first-session discount, newest first."""
    return await prices.promotion_history(runtime, read_page(cursor, limit))


ROUTES = [
    tiers, add_tier, change_tier, delete_tier, reactivate_tier, schedule_price, cancel_price, order_tiers, tier_history,
    promotion, change_promotion, promotion_history,
]  # fmt: skip
