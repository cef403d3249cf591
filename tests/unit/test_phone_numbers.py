"""Phone numbers are normalised to E.164 with Indonesia as default; codes go to mobile numbers of listed countries."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base import phones
from core.base.errors import ValidationFailed
from tests.each import for_each


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


@for_each(
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
        "+44 (0)7400 123456",
        "0065 8123 4567",
        "001 65 8123 4567",
        "0812345678901234",
    ],
)
def test_text_that_is_not_a_phone_number_is_refused_with_its_field(text: str):
    with pytest.raises(ValidationFailed) as caught:
        phones.normalise(text, countries=["ID"])
    assert caught.value.details is not None
    assert [field["field"] for field in caught.value.details["fields"]] == ["phone"]


# Prefixes of a national number, in the notations that people use.
PREFIXES = ["0", "62", "+62", "0062", "+62 0", "+62 (0)", "\uff0b62", "(+62)", "tel:+62", " TEL:0", "\u202a+62 ", ""]
SEPARATORS = ["", " ", "-", ".", "/", "(", ")", "[", "]", "\u00a0", "\u2009", "\t", "\u2013", "\u2011", "\u2212", "\u30a0",
              "\u200e", "\u202c", "\u2069", "\u061c", "\uff0d", "\uff08", "\uff09", "\u2022", "\u30fb", "\u06d4", "\u3010", "\u3011"]  # fmt: skip
ZEROS = [0x30, 0x660, 0x6F0, 0x966, 0x9E6, 0xFF10, 0x1D7CE, 0x1FBF0]  # the digit zero of some scripts


@given(
    number=st.from_regex(r"81[1-9][0-9]{7,8}", fullmatch=True),
    prefix=st.sampled_from(PREFIXES),
    marks=st.lists(st.sampled_from(SEPARATORS), min_size=12, max_size=12),
    zero=st.sampled_from(ZEROS),
)
def test_every_notation_of_a_number_is_read_by_sign_in_and_search(
    number: str, prefix: str, marks: list[str], zero: int
):
    written = prefix + "".join(chr(zero + int(sign)) + mark for sign, mark in zip(number, marks, strict=False))
    assert phones.normalise(written, countries=["ID"]) == f"+62{number}"
    assert any(part in f"+62{number}" for part in phones.like_numbers(written))
    assert all(part.isascii() and part.isdigit() for part in phones.like_numbers(written))


def readings(text: str) -> set[str]:
    """Return what the digits of a text may stand for, without the prefixes that the documentation lists."""
    typed = "".join(str(unicodedata.decimal(sign)) for sign in text if unicodedata.category(sign) == "Nd")
    national = re.fullmatch(r"(?:(?:00)?62)?0?([0-9]*)", typed)
    return {typed} | ({f"62{national[1]}"} if national else set())


LETTERS = st.sampled_from("OoIlABCxX\u041e\u0660\uff11\u00b2\u2460#*;=,'\u200b\ufeff\0")


@given(
    st.one_of(
        st.text(max_size=40),
        st.text(alphabet="0123456789+-() x;=extO", max_size=40),
        st.builds(
            lambda before, sign, after: before + sign + after,
            st.from_regex(r"(\+62|0|62|0062|\+65|\+1|)8?[0-9]{0,8}", fullmatch=True),
            LETTERS,
            st.from_regex(r"[0-9]{0,10}", fullmatch=True),
        ),
    )
)
def test_digits_of_a_result_are_the_digits_of_the_text(text: str):
    countries = ["ID", "US", "SG", "GB"]
    try:
        number = phones.normalise(text, countries=countries)
    except ValidationFailed:
        return
    assert re.fullmatch(r"\+[1-9][0-9]{6,14}", number, re.ASCII)
    assert number.removeprefix("+") in readings(text)
    assert phones.normalise(number, countries=countries) == number


REFUSED = "OoIlABCx\u041e\u00b2\u2460\u200b\u00ad\ufeff\u0301#*;=,'_:\0\x1c"


@for_each("sign", list(REFUSED))
def test_sign_that_is_neither_digit_nor_separator_is_refused_and_not_searched_as_a_number(sign: str):
    for text in (f"0812345{sign}67890", f"{sign}081234567890", f"081234567890{sign}"):
        assert reason(text).startswith("must be a phone number: digits")
        assert phones.like_numbers(text) == []


@for_each("text", ["Dewi", "+", "()", "tel:", "0812 Dewi", "62+812", "++62812", "", None])
def test_text_that_is_no_number_is_searched_as_a_name_only(text: str | None):
    assert phones.like_numbers(text) == []


@pytest.mark.parametrize("text", ["081234567890", "+62 812-3456-7890", "62.812.3456.7890", "0062/812/34567890"])
def test_mobile_number_with_its_prefix_is_one(text: str):
    assert phones.is_mobile(text, country="ID")


@pytest.mark.parametrize("text", ["81234567890", "TRF-081234567890", "0212345678", "012345", "+6581234567", ""])
def test_other_texts_are_no_mobile_numbers(text: str):
    assert not phones.is_mobile(text, country="ID")
