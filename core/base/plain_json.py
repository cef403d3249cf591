"""Checks for JSON that PostgreSQL or another program can't store: NUL, lone surrogates, deep nesting."""

import json
import re
from collections.abc import Callable
from typing import Any

SURROGATE = re.compile(r"[\ud800-\udfff]")  # lone: those of a pair are one character
ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# The parts of a JSON text that tell where its own fields are, also if it is not valid or nested too deeply.
# A string without an end takes the rest, so that the time is linear.
PART = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{]+|[\]}]+|[^"\[\]{}]+', re.DOTALL)
UNSTORABLE = re.compile(r"[\0\ud800-\udfff]")  # NUL and lone surrogates: valid in JSON, refused by PostgreSQL


def storable(value: Any, limit: int = 255) -> str | None:
    """Return `value` if it is a non-empty text that a column of `limit` characters can hold, else None."""
    return value if isinstance(value, str) and 0 < len(value) <= limit and not UNSTORABLE.search(value) else None


def plain_text(value: Any, limit: int = 255) -> str | None:
    """Return a third party's value as a text of at most `limit` characters that a column can hold.

    None for null, objects and lists.
    """
    if value is None or isinstance(value, dict | list):
        return None
    return UNSTORABLE.sub("", str(value))[:limit]


def with_surrogates(data: bytes) -> Any:
    """Return the JSON in `data` if it has a lone surrogate, as of half an emoji, and would be valid without; else None.

    Such JSON has the right grammar, so its fields can be named. A strict decoder refuses the whole.
    """
    if ESCAPED_SURROGATE.search(data) is None:
        return None
    try:
        value = json.loads(data.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return value if has_surrogate(value) else None


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def own_text(data: bytes, name: str) -> str | None:
    """Return the text of the first object's own field, the last of this name, also if the rest of the JSON is not valid.

    None without one, and if it can't be read or has a lone surrogate.
    """
    parts = [part for part in PART.findall(data.decode(errors="replace")) if not part.isspace()]
    depth, found, key = 0, None, json.dumps(name)
    for at, part in enumerate(parts):
        if part[0] in "[{":
            depth += len(part)
        elif part[0] in "]}":
            depth -= len(part)
            if depth <= 0:
                return found  # another value after the object is not its own
        elif depth == 1 and part == key and [one.strip() for one in parts[at + 1 : at + 2]] == [":"]:
            found = _text(parts[at + 2]) if at + 2 < len(parts) else found
    return found


def _text(part: str) -> str | None:
    """Return the value of a JSON string; None for anything else."""
    try:
        value = json.loads(part, strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, str) and SURROGATE.search(value) is None else None


def has_nul(value: Any) -> bool:
    """Return whether any text or key in a JSON value has a NUL character, which neither text nor jsonb can hold."""
    return _has(value, lambda text: "\0" in text)


def has_surrogate(value: Any) -> bool:
    """Return whether any text or key in a JSON value has a lone surrogate, which UTF-8 can't encode."""
    return _has(value, lambda text: SURROGATE.search(text) is not None)


def _has(value: Any, bad: Callable[[str], bool]) -> bool:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            if bad(part):
                return True
        elif isinstance(part, dict):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple):
            waiting += part
    return False


def depth_of(value: Any, *, enough: int = 1000) -> int:
    """Return how deep lists and objects are nested in a JSON value; counting stops at `enough`."""
    deepest = 0
    waiting = [(value, 0)]
    while waiting and deepest < enough:
        part, depth = waiting.pop()
        if isinstance(part, dict | list | tuple):
            deepest = max(deepest, depth + 1)
            inner = part.values() if isinstance(part, dict) else part
            waiting += [(item, depth + 1) for item in inner]
    return deepest
