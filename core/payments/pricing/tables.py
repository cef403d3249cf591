"""The tables of tiers, of promotions, and of their histories."""

from piccolo.constraints import Check, Unique
from piccolo.table import Table

from core.base.field_types import Mode
from core.payments.pricing.rules import ChangeKind, TierChangeKind
from core.storage import columns
from core.storage.personal import Erase, Personal

PRICE = Personal("prices; no person but the operator's id", "always", Erase.KEEP)


class PricingTier(Table, tablename="pricing_tiers", db=columns.ENGINE):
    """A price for a number of minutes in one mode. `updated_at` is the version token of optimistic locking."""

    id = columns.identifier()
    mode = columns.string(10)
    minutes = columns.number()
    price_idr = columns.number()
    tag = columns.string(100, null=True, personal=None)
    sort_order = columns.number(default=0)
    is_active = columns.flag(default=True)
    created_at = columns.created()
    updated_at = columns.moment(null=False)

    one_price = Unique(["mode", "minutes"])
    known_mode = columns.words("mode", Mode)
    sane = Check("minutes > 0 AND price_idr >= 0")


class PricingSchedule(Table, tablename="pricing_schedules", db=columns.ENGINE):
    """A price that a tier gets at a time. The row is deleted when the price starts, or is not wanted any longer."""

    id = columns.identifier()
    pricing_tier_id = columns.reference("PricingTier")
    price_idr = columns.number()
    starts_at = columns.moment(null=False)
    asked_by = columns.reference("Operator")
    asked_at = columns.moment(null=False)

    sane = Check("price_idr >= 0")


class PricingTierHistory(Table, tablename="pricing_tiers_history", db=columns.ENGINE):
    """One row for each change of a tier. `changed_by` is null for the service's own seed.

    `schedule` is the row of `pricing_schedules` that was made, cancelled or started.
    """

    id = columns.identifier()
    pricing_tier_id = columns.reference("PricingTier")
    change_kind = columns.string(20)
    changed_by = columns.reference("Operator", null=True)
    changed_at = columns.moment(null=False)
    before = columns.json(personal=PRICE)
    after = columns.json(personal=PRICE)
    schedule = columns.json(personal=PRICE)

    known_kind = columns.words("change_kind", TierChangeKind)
    says_the_schedule = Check("(schedule IS NOT NULL) = (change_kind IN ('scheduled', 'unscheduled', 'started'))")


class PricingPromotion(Table, tablename="pricing_promotions", db=columns.ENGINE):
    """A promotion by its key; the first-session discount is the only one."""

    id = columns.identifier()
    key = columns.string(50, unique=True, personal=None)
    enabled = columns.flag()
    price_idr = columns.number()
    gimmick_price_idr = columns.number()
    duration_minutes = columns.number()
    modes = columns.texts(null=False, personal=None)
    created_at = columns.created()
    updated_at = columns.moment(null=False)

    sane = Check("price_idr >= 0 AND gimmick_price_idr >= 0 AND duration_minutes > 0")


class PricingPromotionHistory(Table, tablename="pricing_promotions_history", db=columns.ENGINE):
    """One row for each change of a promotion. `changed_by` is null for the service's own seed."""

    id = columns.identifier()
    pricing_promotion_id = columns.reference("PricingPromotion")
    change_kind = columns.string(20)
    changed_by = columns.reference("Operator", null=True)
    changed_at = columns.moment(null=False)
    before = columns.json(personal=PRICE)
    after = columns.json(personal=PRICE)

    known_kind = columns.words("change_kind", ChangeKind)
