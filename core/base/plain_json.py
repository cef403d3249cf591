"""Checks for JSON that PostgreSQL or another program can't store: NUL, lone surrogates, deep nesting."""

import re
from typing import Any

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


def has_nul(value: Any) -> bool:
    """Return whether any text or key in a JSON value has a NUL character, which neither text nor jsonb can hold."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            if "\0" in part:
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
