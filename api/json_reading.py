"""Decode the JSON of request bodies. The number and the depth of its values are limited."""

from typing import Any

import msgspec

from core.base import field_messages
from core.base.errors import ValidationFailed
from core.base.plain_json import SURROGATE, with_surrogates

MAX_VALUES = 4_096  # in all lists and maps of a body together; the largest valid body has about 1,500
MAX_DEPTH = 64  # of nested lists and maps: deeper than any valid body, and far below the recursion limit


def decode(value: bytes) -> Any:
    """Return the decoded JSON of a body.

    Raises ValidationFailed if it is not JSON, or has too many or too deeply nested values.
    """
    try:
        read = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        read = with_surrogates(value)  # refused later, with its field
        if read is None:
            raise ValidationFailed.of("", field_messages.JSON) from error
        if isinstance(read, dict):  # the name of an unknown field is in the refusal, which must be Unicode
            read = {SURROGATE.sub("\ufffd", name): inner for name, inner in read.items()}
    measure(read)
    return read


def measure(value: Any) -> None:
    """Check the number and depth of values; each list and map is counted before its elements are read.

    Raises ValidationFailed above MAX_VALUES or MAX_DEPTH.
    """
    left = MAX_VALUES
    waiting = [(value, 1)] if isinstance(value, list | dict) else []
    while waiting:
        part, depth = waiting.pop()
        left -= len(part)
        if left < 0:
            raise ValidationFailed.of("", field_messages.most_values(MAX_VALUES))
        if depth > MAX_DEPTH:
            raise ValidationFailed.of("", field_messages.depth(MAX_DEPTH))
        inner = part.values() if isinstance(part, dict) else part
        waiting += [(item, depth + 1) for item in inner if isinstance(item, list | dict)]
