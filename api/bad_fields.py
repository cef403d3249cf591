"""Name the bad fields of a request body, each with a message in both languages."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, get_type_hints

import attrs
import cattrs

from api.structuring import check_size, without_none, words_of
from core.base import field_messages
from core.base.languages import Text
from core.base.plain_json import SURROGATE

LENGTHS = ("min_length", "max_length")  # attributes of attrs' validators

BadField = dict[str, Any]  # {"field": str, "message": Text}


def reason_of(error: BaseException) -> Text:
    """Return the message about a bad field; errors of our own hooks and validators contain it."""
    if isinstance(error, KeyError):
        return field_messages.REQUIRED
    if error.args and isinstance(error.args[0], Text):
        return error.args[0]
    return field_messages.INVALID


def bad_fields(error: BaseException, path: str = "") -> Iterator[BadField]:
    """Yield each bad field of a body that could not be structured."""
    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        yield from unknown_fields(error.extra_fields)
    elif isinstance(error, cattrs.IterableValidationError):
        for inner, note in error.group_exceptions()[0]:
            yield from bad_fields(inner, f"{path}[{note.index!r}]")
    elif isinstance(error, cattrs.ClassValidationError):
        named, others = error.group_exceptions()
        for inner, note in named:
            yield from bad_fields(inner, f"{path}.{note.name}")
        for inner in others:
            yield from bad_fields(inner, path)
    else:
        yield {"field": path.removeprefix("."), "message": reason_of(error)}


def unknown_fields(names: Iterable[str]) -> list[BadField]:
    """Return a bad field for each name that a body does not have."""
    return [{"field": SURROGATE.sub("\ufffd", name), "message": field_messages.UNKNOWN} for name in sorted(names)]


def out_of_bounds(body: Any) -> Iterator[BadField]:
    """Yield each field whose value breaks a validator, or is not a word of its type."""
    words = _words_of_fields(type(body))
    for field in attrs.fields(type(body)):
        value = getattr(body, field.name)
        if field.name in words and value is not None and value not in words[field.name]:
            yield {"field": field.name, "message": field_messages.one_of(words[field.name])}
        if field.validator is None:
            continue
        try:
            field.validator(body, field, value)
        except (ValueError, TypeError):
            yield {"field": field.name, "message": _broken_rule(list(_rules_of(field.validator)), body, field, value)}


def _broken_rule(rules: list[Any], body: Any, field: Any, value: Any) -> Text:
    """Return the message of the rule that the value breaks. The messages of attrs' validators exist in English only."""
    bounds = {name: getattr(rule, name) for rule in rules for name in LENGTHS if hasattr(rule, name)}
    bounds |= {rule.compare_op: rule.bound for rule in rules if hasattr(rule, "compare_op")}
    for rule in rules:
        try:
            rule(body, field, value)
        except (ValueError, TypeError) as error:
            match type(rule).__name__:
                case "_MinLengthValidator" | "_MaxLengthValidator" if isinstance(value, str):
                    return field_messages.length(*(bounds.get(name) for name in LENGTHS))
                case "_MaxLengthValidator":
                    return field_messages.most_items(rule.max_length)
                case "_NumberValidator":
                    return field_messages.between(bounds.get(">="), bounds.get("<="))
            return reason_of(error)
    return field_messages.INVALID


def _rules_of(validator: Any) -> Iterator[Any]:
    """Yield the validators that a validator is made of."""
    match type(validator).__name__:
        case "_AndValidator":
            for one in validator._validators:
                yield from _rules_of(one)
        case "_OptionalValidator":
            yield from _rules_of(validator.validator)
        case _:
            yield validator


@cache
def _words_of_fields(cls: Any) -> Mapping[str, tuple[str, ...]]:
    """Return field name -> the words that its type allows, for the fields that have a closed list."""
    hints = {name: without_none(hint) for name, hint in get_type_hints(cls).items()}
    return {name: words for name, hint in hints.items() if (words := words_of(hint))}


@cache
def _bounds_of(cls: Any) -> Mapping[str, int]:
    """Return field name -> its maximum length, for the fields that have one."""
    return {
        field.name: rule.max_length
        for field in attrs.fields(cls)
        for rule in _rules_of(field.validator)
        if hasattr(rule, "max_length")
    }


def too_long(value: dict[str, Any], cls: Any) -> Iterator[BadField]:
    """Yield the list and map fields with too many elements."""
    for name, most in _bounds_of(cls).items():
        if isinstance(found := value.get(name), list | dict):
            try:
                check_size(found, most)
            except ValueError as error:
                yield {"field": name, "message": reason_of(error)}
