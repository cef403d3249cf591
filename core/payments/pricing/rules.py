"""Rules of prices: bounds of tiers, and who gets the first-session discount (docs/product.md#prices)."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import attrs

from core.base import field_messages, shown_texts
from core.base.errors import DomainError, ValidationFailed
from core.base.field_types import MAX_INT, Mode
from core.base.languages import Text

MODES: tuple[Mode, ...] = get_args(Mode)
ChangeKind = Literal["created", "updated", "deleted", "reactivated", "reordered"]
TierChangeKind = Literal[ChangeKind, "scheduled", "unscheduled", "started"]
MAX_MINUTES = 1440
MAX_IDR = MAX_INT
LONGEST_TAG = 100


class TierNotFound(DomainError):
    """No active tier has this mode and these minutes."""

    code = "TIER_NOT_FOUND"
    message = Text(en="This price does not exist.", id="Harga ini tidak ada.")
    advice = "Read the prices again: an operator has changed them."


class PriceChanged(DomainError):
    """The price is not the `expected_amount` that the customer was shown; `details.amount` is the present price."""

    code = "PRICE_CHANGED"
    message = Text(en="The price has changed. Check the new one.", id="Harga sudah berubah. Periksa harga yang baru.")
    advice = (
        "Show the price that `details.amount` names. If the customer agrees, send the request with it as "
        "`expected_amount` and a new key."
    )


def check_expected(amount: int, expected: int | None) -> None:
    """Check a price against the one that the customer was shown; None: the client did not say.

    Raises PriceChanged.
    """
    if expected is not None and expected != amount:
        raise PriceChanged(details={"amount": amount})


class DiscountNotEligible(DomainError):
    """The customer is not eligible for the first-session discount."""

    code = "DISCOUNT_NOT_ELIGIBLE"
    message = Text(
        en="The first-session discount is not available to you.", id="Diskon sesi pertama tidak tersedia untuk Anda."
    )
    advice = "Read the prices again, and offer the ordinary ones."


class StaleWrite(DomainError):
    """Another operator has changed the object after it was read. `details.current` is its present state."""

    code = "STALE_WRITE"
    message = Text(
        en="Another operator has changed this. Reload and try again.",
        id="Operator lain sudah mengubah ini. Muat ulang dan coba lagi.",
    )
    advice = "Show `details.current`, and let the user apply their change again."


class TierExists(DomainError):
    """A tier for this mode and these minutes exists already, perhaps a deleted one. `details.id` is its id."""

    code = "TIER_EXISTS"
    message = Text(
        en="A price for this mode and duration already exists.", id="Sudah ada harga untuk jenis dan menit ini."
    )
    advice = "Change or reactivate the tier that `details.id` names."


class PriceScheduled(DomainError):
    """The tier already gets a price in this minute. `details.id` is the id of that schedule."""

    code = "PRICE_SCHEDULED"
    message = Text(
        en="This tier already gets a price in this minute.", id="Harga lain sudah dijadwalkan untuk menit ini."
    )
    advice = "Choose another minute, or cancel the schedule that `details.id` names first."


@attrs.frozen(kw_only=True)
class Promotion:
    """The first-session discount."""

    enabled: bool
    price_idr: int
    gimmick_price_idr: int
    duration_minutes: int
    modes: list[Mode]


def _check_numbers(where: str, values: Mapping[str, Any], bounds: Mapping[str, tuple[int, int]]) -> None:
    for name, (low, high) in bounds.items():
        value = values[name]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValidationFailed.of(
                where + name,
                field_messages.between(low, high),
            )


def check_tier(*, mode: Any, minutes: Any, price_idr: Any, tag: Any, where: str = "") -> None:
    """Check a tier that was read from a file.

    Raises ValidationFailed with the name of the field, prefixed by `where`.
    """
    if mode not in MODES:
        raise ValidationFailed.of(where + "mode", field_messages.one_of(MODES))
    values = {"minutes": minutes, "price_idr": price_idr}
    _check_numbers(where, values, {"minutes": (1, MAX_MINUTES), "price_idr": (0, MAX_IDR)})
    checked_tag(tag, where)


def checked_tag(tag: Any, where: str = "") -> str | None:
    """Return a tier's tag as it is stored; None without one. Raises ValidationFailed."""
    if tag is None:
        return None
    if not isinstance(tag, str):
        raise ValidationFailed.of(where + "tag", field_messages.STRING)
    return shown_texts.checked_line(where + "tag", tag, most=LONGEST_TAG)


def check_promotion(promotion: Promotion, where: str = "") -> None:
    """Check a discount that was read from a file.

    Raises ValidationFailed with the name of the field, prefixed by `where`.
    """
    if not isinstance(promotion.enabled, bool):
        raise ValidationFailed.of(where + "enabled", field_messages.FLAG)
    money = (0, MAX_IDR)
    bounds = {"price_idr": money, "gimmick_price_idr": money, "duration_minutes": (1, MAX_MINUTES)}
    _check_numbers(where, attrs.asdict(promotion, recurse=False), bounds)
    modes: Any = promotion.modes
    if not isinstance(modes, list) or not all(modes.count(mode) == 1 and mode in MODES for mode in modes):
        raise ValidationFailed.of(
            where + "modes",
            field_messages.MODES,
        )


@attrs.frozen(kw_only=True)
class Past:
    """The facts about a customer that decide about the discount."""

    ever_paired: bool  # also as an erased customer with the same phone or identity
    other_discounted_request: bool  # pending, confirmed or consumed, without a pending one that is about to be replaced
    anonymous: bool  # the account has neither a verified phone nor an identity


def eligible(promotion: Promotion | None, past: Past, *, requires_identity: bool) -> bool:
    """Return whether the customer could have the discount in some mode.

    Anyone can create any number of anonymous accounts. So a free session always needs a verified phone or identity, and
    a discounted one needs it if `requires_identity` is set.
    """
    if promotion is None or not promotion.enabled or not promotion.modes:
        return False
    if past.anonymous and (requires_identity or promotion.price_idr == 0):
        return False
    return not past.ever_paired and not past.other_discounted_request


def discounted(
    promotion: Promotion | None, past: Past, *, mode: str, duration_minutes: int | None, requires_identity: bool
) -> tuple[int, int]:
    """Return (price in Rupiah, minutes) with the discount.

    Raises DiscountNotEligible if the customer is not eligible, or the mode or the minutes don't fit the promotion.
    """
    if (
        promotion is None
        or not eligible(promotion, past, requires_identity=requires_identity)
        or mode not in promotion.modes
    ):
        raise DiscountNotEligible
    if duration_minutes not in (None, promotion.duration_minutes):
        raise DiscountNotEligible
    return promotion.price_idr, promotion.duration_minutes
