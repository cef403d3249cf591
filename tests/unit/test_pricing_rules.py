"""Who gets the first-session discount, and what it costs (docs/product.md#first-session-discount)."""

import functools
import itertools

import attrs
import pytest

from core.payments.pricing import rules
from core.payments.pricing.rules import DiscountNotEligible, Past, Promotion
from tests.each import for_each

eligible = functools.partial(rules.eligible, requires_identity=False)
discounted = functools.partial(rules.discounted, requires_identity=False)

PROMOTION = Promotion(enabled=True, price_idr=2000, gimmick_price_idr=12000, duration_minutes=12, modes=["chat"])
NEW = Past(ever_paired=False, other_discounted_request=False, anonymous=False)


@for_each(("enabled", "paired", "other"), list(itertools.product((True, False), repeat=3)))
def test_discount_requires_an_enabled_promotion_and_a_customer_without_a_past(enabled: bool, paired: bool, other: bool):
    promotion = attrs.evolve(PROMOTION, enabled=enabled)
    past = Past(ever_paired=paired, other_discounted_request=other, anonymous=True)
    may = enabled and not paired and not other
    assert eligible(promotion, past) is may
    if may:
        assert discounted(promotion, past, mode="chat", duration_minutes=None) == (2000, 12)
    else:
        with pytest.raises(DiscountNotEligible):
            discounted(promotion, past, mode="chat", duration_minutes=None)


def test_discount_without_a_promotion_is_refused():
    assert not eligible(None, NEW)
    with pytest.raises(DiscountNotEligible):
        discounted(None, NEW, mode="chat", duration_minutes=None)


def test_discount_for_another_mode_is_refused():
    with pytest.raises(DiscountNotEligible):
        discounted(PROMOTION, NEW, mode="call", duration_minutes=None)


@pytest.mark.parametrize("minutes", [1, 11, 13, 30])
def test_discount_with_other_minutes_is_refused(minutes: int):
    assert discounted(PROMOTION, NEW, mode="chat", duration_minutes=12) == (2000, 12)
    with pytest.raises(DiscountNotEligible):
        discounted(PROMOTION, NEW, mode="chat", duration_minutes=minutes)


@for_each(("anonymous", "required", "price"), list(itertools.product((True, False), (True, False), (0, 2000))))
def test_anonymous_customer_gets_no_free_session_or_identity_discount(anonymous: bool, required: bool, price: int):
    promotion, past = attrs.evolve(PROMOTION, price_idr=price), attrs.evolve(NEW, anonymous=anonymous)
    may = not anonymous or (price > 0 and not required)
    assert rules.eligible(promotion, past, requires_identity=required) is may
