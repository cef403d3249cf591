"""What a session costs, and who gets the first-session discount (specification, Core rules 10; contract 4)."""

import attrs

from core.base.errors import DomainError


class TierNotFound(DomainError):
    """There is no active tier for this mode and these minutes."""

    code = "TIER_NOT_FOUND"
    message = "There is no such price."


class DiscountNotEligible(DomainError):
    """The customer can't have the first-session discount."""

    code = "DISCOUNT_NOT_ELIGIBLE"
    message = "The first-session discount is not available to you."


class StaleWrite(DomainError):
    """Somebody else changed it since; `details.current` is how it is now."""

    code = "STALE_WRITE"
    message = "Somebody else has changed this. Look at it again."


class TierExists(DomainError):
    """There is a tier for this mode and these minutes, perhaps a deleted one; `details.id` names it."""

    code = "TIER_EXISTS"
    message = "There is a price for this mode and these minutes already."


@attrs.frozen(kw_only=True)
class Promotion:
    """The first-session discount."""

    enabled: bool
    price_idr: int
    gimmick_price_idr: int
    duration_minutes: int
    modes: list[str]


@attrs.frozen(kw_only=True)
class Past:
    """What of a customer's past decides about the discount."""

    ever_paired: bool
    other_discounted_request: bool  # pending, confirmed or consumed; a pending one that is replaced does not count


def eligible(promotion: Promotion | None, past: Past) -> bool:
    """Whether the customer could have the discount in some mode."""
    offered = promotion is not None and promotion.enabled and bool(promotion.modes)
    return offered and not past.ever_paired and not past.other_discounted_request


def discounted(promotion: Promotion | None, past: Past, *, mode: str, duration_minutes: int | None) -> tuple[int, int]:
    """Return (price, minutes) with the discount.

    Raises DiscountNotEligible.
    """
    if promotion is None or not eligible(promotion, past) or mode not in promotion.modes:
        raise DiscountNotEligible
    if duration_minutes not in (None, promotion.duration_minutes):
        raise DiscountNotEligible
    return promotion.price_idr, promotion.duration_minutes
