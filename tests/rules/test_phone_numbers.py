"""Phone numbers are normalised to E.164 with Indonesia as default; codes go to mobile numbers of listed countries."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base import phones
from core.base.errors import ValidationFailed


@pytest.mark.parametrize(
    "text",
    ["081234567890", "0812 3456 7890", "0812-3456-7890", "+6281234567890", "+62 812 3456 7890", "(0812) 34567890"],
)
def test_every_usual_spelling_of_a_number_is_the_same_number(text: str):
    assert phones.normalise(text, countries=["ID"]) == "+6281234567890"


def test_a_number_of_another_country_is_taken_when_the_country_is_listed():
    assert phones.normalise("+1 650 253 0000", countries=["ID", "US"]) == "+16502530000"
    assert phones.normalise("+65 8123 4567", countries=["SG"]) == "+6581234567"


def reason(text: str, *countries: str) -> str:
    with pytest.raises(ValidationFailed) as caught:
        phones.normalise(text, countries=countries or ("ID",))
    assert caught.value.details is not None
    (field,) = caught.value.details["fields"]
    assert field["field"] == "phone"
    return field["message"].en


@pytest.mark.parametrize(
    "text",
    ["+1 650 253 0000", "+65 8123 4567", "+44 7400 123456", "+7 912 345 67 89", "+881612345678", "+883510000000000"],
)
def test_a_number_of_a_country_that_is_not_listed_is_refused(text: str):
    assert reason(text) == "must be a phone number from one of these countries: ID"


def test_countries_that_share_a_code_are_told_apart():
    assert reason("+1 416 555 0123", "US").startswith("must be a phone number from one of these countries")
    assert phones.normalise("+1 416 555 0123", countries=["CA"]) == "+14165550123"


@pytest.mark.parametrize(
    ("text", "countries"),
    [("+62 21 5290 3000", ("ID",)), ("+62 809 1234567", ("ID",)), ("+62 800 1234567", ("ID",)),
     ("+1 900 555 0123", ("US",)), ("+44 871 200 0000", ("GB",))],
)  # fmt: skip
def test_landline_premium_and_free_numbers_are_refused(text: str, countries: tuple[str, ...]):
    assert reason(text, *countries) == "must be a mobile number"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "abc",
        "0",
        "123",
        "+62",
        "+999 123456789",
        "08123",
        "9" * 40,
        "\0",
        "+6281234567890;ext=5",
        "0812345678901234",
    ],
)
def test_what_is_no_number_is_refused_by_field(text: str):
    with pytest.raises(ValidationFailed) as caught:
        phones.normalise(text, countries=["ID"])
    assert caught.value.details is not None
    assert [field["field"] for field in caught.value.details["fields"]] == ["phone"]


@given(st.one_of(st.text(max_size=40), st.text(alphabet="0123456789+-() x;=ext", max_size=40)))
def test_any_text_is_e164_or_a_refusal_and_stays_the_same_when_read_again(text: str):
    try:
        number = phones.normalise(text, countries=["ID", "US", "SG"])
    except ValidationFailed:
        return
    assert re.fullmatch(r"\+[1-9][0-9]{6,14}", number, re.ASCII)
    assert phones.normalise(number, countries=["ID", "US", "SG"]) == number
