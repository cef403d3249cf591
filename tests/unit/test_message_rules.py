"""What a chat message may contain: a batch never gets anything that PostgreSQL could refuse."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.errors import ValidationFailed
from core.sessions.messages.rules import MAX_METADATA, check_message

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters(exclude_categories=())))
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=8,
)


def check(content: str = "hello", *, message_type: str = "text", metadata: dict[str, Any] | None = None) -> str | None:
    return check_message(message_type=message_type, content=content, metadata=metadata)


def refused_field(content: str = "hello", *, message_type: str = "text", metadata: dict[str, Any] | None = None) -> str:
    with pytest.raises(ValidationFailed) as caught:
        check(content, message_type=message_type, metadata=metadata)
    assert caught.value.details is not None
    return caught.value.details["fields"][0]["field"]


@pytest.mark.parametrize("message_type", ["system", "image", "", "TEXT"])
def test_client_message_that_is_not_text_is_refused(message_type: str):
    assert refused_field(message_type=message_type) == "type"


@pytest.mark.parametrize("size", [1, 2, 3999, 4000])
def test_content_of_1_to_4000_characters_is_accepted(size: int):
    assert check("ä" * size) is None
    assert check("😀" * size) is None


@pytest.mark.parametrize("content", ["", "x" * 4001, "a\0b", "\0"])
def test_empty_or_too_long_content_or_content_with_a_nul_is_refused(content: str):
    assert refused_field(content) == "content"


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_any_metadata_becomes_valid_jsonb_or_is_refused(metadata: dict[str, Any]):
    try:
        text = check(metadata=metadata)
    except ValidationFailed:
        return
    assert text is not None
    no_constants: list[str] = []  # NaN and Infinity, which Python writes and PostgreSQL refuses
    assert isinstance(json.loads(text, parse_constant=no_constants.append), dict)
    assert no_constants == []
    assert b"\0" not in text.encode()


def test_metadata_survives_storage():
    metadata = {"reply_to": 7, "tags": ["a", "ü"], "deep": {"x": None, "y": 1.5, "z": True}}
    assert json.loads(check(metadata=metadata) or "") == metadata
    assert check(metadata=None) is None
    assert json.loads(check(metadata={}) or "") == {}


@pytest.mark.parametrize("metadata", [{"a": "\0"}, {"\0": 1}, {"a": ["x\0y"]}], ids=repr)
def test_metadata_with_a_nul_is_refused(metadata: dict[str, Any]):
    assert refused_field(metadata=metadata) == "metadata"


def test_metadata_with_an_escaped_backslash_before_u0000_is_accepted():
    metadata = {"path": "C:\\u0000"}
    assert json.loads(check(metadata=metadata) or "") == metadata


@pytest.mark.parametrize("letter", ["x", "é", "😀"])
def test_metadata_over_its_byte_limit_is_refused(letter: str):
    fits = {"a": letter * ((MAX_METADATA - 8) // len(letter.encode()))}
    assert check(metadata=fits) is not None
    assert refused_field(metadata={"a": letter * (MAX_METADATA // len(letter.encode()) + 1)}) == "metadata"


def test_recursive_metadata_is_refused():
    circle: dict[str, Any] = {}
    circle["again"] = circle
    assert refused_field(metadata=circle) == "metadata"
