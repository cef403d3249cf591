"""What JSON may say and PostgreSQL can't hold."""

from typing import Any


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
