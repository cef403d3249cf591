"""Ids are UUIDv7 in canonical text; ids from outside are parsed strictly."""

import string
import uuid

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.base import ids

HEX = st.sampled_from("0123456789abcdefABCDEF")


def test_new_id_is_a_canonical_uuid_of_version_7():
    for _ in range(200):
        made = ids.new_id()
        parsed = uuid.UUID(made)
        assert (parsed.version, parsed.variant, str(parsed)) == (7, uuid.RFC_4122, made)


def test_new_ids_are_unique_with_increasing_times():
    made = [ids.new_id() for _ in range(2000)]
    times = [one[:13] for one in made]
    assert len(set(made)) == len(made)
    assert times == sorted(times)


@given(st.uuids())
def test_id_in_either_case_parses_to_the_canonical_form(value: uuid.UUID):
    assert ids.parse_id(str(value)) == str(value)
    assert ids.parse_id(str(value).upper()) == str(value)


@given(st.uuids(), st.sampled_from(["", " ", "\n", "\0", "-", "0"]), st.sampled_from(["", " ", "\n", "\0", "-", "0"]))
def test_id_with_surrounding_characters_is_refused(value: uuid.UUID, before: str, behind: str):
    read = ids.parse_id(f"{before}{value}{behind}")
    assert read == (str(value) if not before + behind else None)


@given(st.uuids())
def test_id_without_four_dashes_is_refused(value: uuid.UUID):
    for other in (value.hex, value.urn, f"{{{value}}}", str(value).replace("-", "_"), str(value)[:-1]):
        assert ids.parse_id(other) is None


@given(st.one_of(st.text(), st.none(), st.integers(), st.binary(), st.lists(st.text()), st.uuids()))
@example("\uff101900000-0000-7000-8000-000000000000")
@example("\u06601900000-0000-7000-8000-000000000000")
def test_text_that_is_not_an_id_is_refused(value: object):
    read = ids.parse_id(value)
    if read is not None:
        assert isinstance(value, str)
        assert str(uuid.UUID(value)) == read
        assert set(value) <= set(string.hexdigits + "-")


@pytest.mark.parametrize("digits", [1, 4, 6])
def test_code_has_its_number_of_digits_including_leading_zeros(digits: int):
    made = {ids.new_code(digits) for _ in range(500)}
    assert all(len(code) == digits and code.isascii() and code.isdigit() for code in made)
    assert any(code.startswith("0") for code in made)


def test_secret_has_256_bits_and_is_unique():
    made = {ids.new_secret() for _ in range(100)}
    assert {len(secret) for secret in made} == {32}
    assert len(made) == 100
