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
def test_usual_spellings_of_a_phone_number_normalise_to_one_number(text: str):
    assert phones.normalise(text, countries=["ID"]) == "+6281234567890"


def test_phone_number_of_a_listed_country_is_accepted():
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
def test_phone_number_of_an_unlisted_country_is_refused(text: str):
    assert reason(text) == "must be a phone number from one of these countries: ID"


def test_countries_that_share_a_calling_code_are_distinguished():
    assert reason("+1 416 555 0123", "US").startswith("must be a phone number from one of these countries")
    assert phones.normalise("+1 416 555 0123", countries=["CA"]) == "+14165550123"


@pytest.mark.parametrize(
    ("text", "countries"),
    [("+62 21 5290 3000", ("ID",)), ("+62 809 1234567", ("ID",)), ("+62 800 1234567", ("ID",)),
     ("+1 900 555 0123", ("US",)), ("+44 871 200 0000", ("GB",))],
)  # fmt: skip
def test_landline_premium_and_toll_free_numbers_are_refused(text: str, countries: tuple[str, ...]):
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
def test_text_that_is_not_a_phone_number_is_refused_with_its_field(text: str):
    with pytest.raises(ValidationFailed) as caught:
        phones.normalise(text, countries=["ID"])
    assert caught.value.details is not None
    assert [field["field"] for field in caught.value.details["fields"]] == ["phone"]


@given(st.one_of(st.text(max_size=40), st.text(alphabet="0123456789+-() x;=ext", max_size=40)))
def test_any_text_normalises_to_stable_e164_or_is_refused(text: str):
    try:
        number = phones.normalise(text, countries=["ID", "US", "SG"])
    except ValidationFailed:
        return
    assert re.fullmatch(r"\+[1-9][0-9]{6,14}", number, re.ASCII)
    assert phones.normalise(number, countries=["ID", "US", "SG"]) == number
