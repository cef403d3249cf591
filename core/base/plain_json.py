"""What JSON may say and PostgreSQL, or another program, can't hold."""

import re
from typing import Any

UNSTORABLE = re.compile(r"[\0\ud800-\udfff]")  # JSON may carry these, PostgreSQL takes neither


def storable(value: Any, limit: int = 255) -> str | None:
    """Return a text that a column can hold; None for anything else, and for an empty one."""
    return value if isinstance(value, str) and 0 < len(value) <= limit and not UNSTORABLE.search(value) else None


def plain_text(value: Any, limit: int = 255) -> str | None:
    """Return what a log column may hold of a foreign value."""
    if value is None or isinstance(value, dict | list):
        return None
    return UNSTORABLE.sub("", str(value))[:limit]


def has_nul(value: Any) -> bool:
    """Whether a NUL character is in any text of a JSON value, keys included: neither text nor jsonb can hold it."""
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
    """Return how deep lists and objects are nested in a JSON value; it stops counting at `enough`."""
    deepest = 0
    waiting = [(value, 0)]
    while waiting and deepest < enough:
        part, depth = waiting.pop()
        if isinstance(part, dict | list | tuple):
            deepest = max(deepest, depth + 1)
            inner = part.values() if isinstance(part, dict) else part
            waiting += [(item, depth + 1) for item in inner]
    return deepest
