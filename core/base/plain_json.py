"""Checks for JSON that PostgreSQL or another program can't store: NUL, lone surrogates, deep nesting."""

import functools
import json
import re
from collections.abc import Callable
from typing import Any

SURROGATE = re.compile(r"[\ud800-\udfff]")  # lone: those of a pair are one character
ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# The parts of a JSON text that tell where its own fields are, also if it is not valid or nested too deeply. All are
# possessive, so that the time is linear; a string without an end takes the rest.
STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
BETWEEN = r'[^"\[\]{}]++'
SHORT = rf"[\[{{](?:{BETWEEN}|{STRING}){{0,20}}+[\]}}]"  # a list or object with nothing nested, skipped at once
OPENING = r'(?:[\[{]++(?:"[^"\\\[\]{}]*+"\s*+:\s*+)?+)++'
CLOSING = r"(?:[\]}]\s*+)++"
NESTED = re.compile(rf"(?:{BETWEEN}|{STRING}|{SHORT}){{0,2000}}+(?:({OPENING})|({CLOSING}))", re.DOTALL)
OBJECT = re.compile(r"\s*+\{")
MAX_STEPS = 250  # of a search for a text: half a millisecond for a frame
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
    """Return the text of an object's own field, the last of this name, also if the rest of the JSON is not valid.

    None without one, and if it can't be read or has a lone surrogate. The search ends early in JSON with very many
    nested parts; then a text behind them is not found.
    """
    text = data.decode(errors="replace")
    begin, own = OBJECT.match(text), _own_part(name)
    at, depth, found = begin.end() if begin else len(text), 1, None
    for _ in range(MAX_STEPS):
        part = (own if depth == 1 else NESTED).match(text, at)
        if part is None:
            break
        at = part.end()
        depth += _brackets(part[1], "[{") - _brackets(part[2], "]}")
        if depth <= 0:
            break  # another value after the object is not its own
        if part[1] is part[2] is None:
            found = part[3]
    return None if found is None else _text(found)


@functools.cache
def _own_part(name: str) -> re.Pattern[str]:
    """Return what finds the next field of this name, or else the next nested value or the end, in an object."""
    key = rf"{re.escape(json.dumps(name))}\s*+:"
    skipped = rf"(?:{BETWEEN}|(?!{key}){STRING}|{SHORT}){{0,2000}}+"
    return re.compile(rf"{skipped}(?:({OPENING})|({CLOSING})|{key}\s*+({STRING})?)", re.DOTALL)


def _brackets(run: str | None, kinds: str) -> int:
    return 0 if run is None else sum(map(run.count, kinds))


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
    try:
        json.dumps(value, ensure_ascii=False).encode()  # in C: to walk through a large frame takes milliseconds
    except UnicodeEncodeError:
        return True
    except (RecursionError, TypeError):
        return _has(value, lambda text: SURROGATE.search(text) is not None)
    return False


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
