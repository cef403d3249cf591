"""Display names: a length, and no characters that hide or reverse other text (docs/product.md#names-and-privacy)."""

import pytest

from core.base import names
from core.base.errors import ValidationFailed
from tests.each import for_each


def reason(name: str) -> str:
    with pytest.raises(ValidationFailed) as caught:
        names.checked(name, field="name")
    assert caught.value.details is not None
    (field,) = caught.value.details["fields"]
    assert field["field"] == "name"
    return field["message"].en


@for_each(
    "name",
    [
        "Dewi",
        "d",
        "x" * 100,
        "I Gusti Ngurah Rai",
        "O\u2019Brien",
        "\u0645\u0631\u064a\u0645",
        "\u5c0f\u6797",
        "Ayu \U0001f469\u200d\U0001f52c",
    ],
)
def test_usual_names_are_accepted_unchanged(name: str):
    assert names.checked(f"  {name} ") == name


@pytest.mark.parametrize("name", ["", " ", "\u00a0\u2003", "x" * 101])
def test_name_outside_its_length_limits_is_refused(name: str):
    assert reason(name) == "must be 1 to 100 characters long"


@for_each(
    "sign",
    ["\n", "\r", "\t", "\0", "\x1b", "\x85", "\u2028", "\u2029", "\u202e", "\u2066", "\u200b", "\u200e", "\ufeff", "\u00ad",
     "\U000e0041", "\ud800"],
)  # fmt: skip
def test_name_with_control_or_invisible_characters_is_refused(sign: str):
    assert reason(f"De{sign}wi") == "must not contain line breaks, control or invisible characters"


@pytest.mark.parametrize("name", ["\u200d", "\u200d \u200d"])
def test_name_without_a_visible_character_is_refused(name: str):
    assert reason(name) == "must contain a visible character"
