"""The topic flag, in every combination of states (docs/product.md#topic-sensitivity)."""

import itertools

import pytest

from core.sessions.sensitivity import Sensitivity, SensitivityLatched, flips
from tests.each import for_each

R, S = Sensitivity.REGULAR, Sensitivity.SENSITIVE


def test_sensitivity_values_equal_the_documented_ones() -> None:
    assert [value.value for value in Sensitivity] == ["regular", "sensitive"]


@for_each(("before", "wanted", "one_way"), list(itertools.product(Sensitivity, Sensitivity, (True, False))))
def test_sensitivity_change_follows_the_table(before: Sensitivity, wanted: Sensitivity, one_way: bool) -> None:
    if (before, wanted, one_way) == (S, R, True):
        with pytest.raises(SensitivityLatched):
            flips(before, wanted, one_way=one_way)
    else:
        assert flips(before, wanted, one_way=one_way) is (before is not wanted)
