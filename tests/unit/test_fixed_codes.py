"""Fixed codes of test numbers: on which days they work (docs/product.md#test-numbers)."""

import datetime as dt

from core.settings.fixed_codes import find, parse

PHONE, OTHER = "+6281355557777", "+6289753107891"
LAST = dt.date(2027, 1, 31)


def test_fixed_code_works_until_its_last_day_inclusive():
    numbers = parse(f"{PHONE}:975310:2027-01-31")
    for day in (LAST - dt.timedelta(days=400), LAST):
        found = find(numbers, PHONE, day=day)
        assert found is not None
        assert found.code == "975310"
    assert find(numbers, PHONE, day=LAST + dt.timedelta(days=1)) is None


def test_fixed_code_without_a_last_day_works_on_every_day():
    assert find(parse(f"{PHONE}:975310"), PHONE, day=dt.date.max) is not None


def test_other_numbers_have_no_fixed_code():
    assert find(parse(f"{PHONE}:975310"), OTHER, day=LAST) is None
    assert find((), PHONE, day=LAST) is None


def test_fixed_code_is_not_shown():
    assert "975310" not in repr(parse(f"{PHONE}:975310:2027-01-31"))
