"""Phone numbers become E.164; Indonesia is the default; anything else is a refusal (contract 3)."""

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
    assert phones.normalise(text) == "+6281234567890"


def test_a_number_of_another_country_keeps_its_country():
    assert phones.normalise("+1 650 253 0000") == "+16502530000"


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
        phones.normalise(text)
    assert caught.value.details is not None
    assert [field["field"] for field in caught.value.details["fields"]] == ["phone"]


@given(st.one_of(st.text(max_size=40), st.text(alphabet="0123456789+-() x;=ext", max_size=40)))
def test_any_text_is_e164_or_a_refusal_and_stays_the_same_when_read_again(text: str):
    try:
        number = phones.normalise(text)
    except ValidationFailed:
        return
    assert re.fullmatch(r"\+[1-9][0-9]{6,14}", number, re.ASCII)
    assert phones.normalise(number) == number
