"""Read decoded JSON as typed values: no conversion between types, canonical ids, words of enums.

The cost of a refusal must not grow with the body. So lists and maps are counted before their elements are read, and
reading a list or map stops after MAX_ERRORS errors.
"""

import enum
from collections.abc import Callable, Iterable
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin

import cattrs
from cattrs.preconf.json import make_converter

from core.base import field_messages
from core.base.field_types import Id
from core.base.ids import parse_id
from core.base.plain_json import has_surrogate

MAX_ITEMS = 1_000  # in a list or map whose field declares no bound
MAX_ERRORS = 20  # bad fields in an answer; reading a list or map stops after this many


def words_of(kind: Any) -> tuple[str, ...]:
    """Return the words of an enum or Literal; empty for other types."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return tuple(kind) if isinstance(kind, type) and issubclass(kind, enum.StrEnum) else ()


def without_none(hint: Any) -> Any:
    """Return a type without None: the type itself, or the union of its other members."""
    if get_origin(hint) not in (Union, UnionType):
        return hint
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    return kinds[0] if len(kinds) == 1 else Union[tuple(kinds)]  # noqa: UP007 - the members are found here


def _exact(kind: type[int] | type[bool]) -> Any:
    def hook(value: Any, _: type) -> Any:
        if type(value) is not kind:
            raise TypeError(field_messages.INTEGER if kind is int else field_messages.FLAG)
        return value

    return hook


def read_text(value: Any, kind: Any) -> str:
    """Return a string; as a member of the enum if that is the type and has it. `bad_fields.out_of_bounds` refuses other
    words."""
    if type(value) is not str:
        raise TypeError(field_messages.STRING)
    if "\0" in value:
        raise ValueError(field_messages.NO_NUL)
    if not value.isascii() and has_surrogate(value):
        raise ValueError(field_messages.NO_SURROGATES)
    words = words_of(kind)
    return words[words.index(value)] if value in words else value


def _id(value: Any, _: type) -> Id:
    found = parse_id(value)
    if found is None:
        raise ValueError(field_messages.UUID)
    return found


converter = make_converter(forbid_extra_keys=True, detailed_validation=True)


def _read_each(items: Iterable[tuple[Any, Any, Any]], target: Any, read: Callable[[Any, Any], Any]) -> list[Any]:
    """Structure (index or key, value, type) triples with `read`; return the results.

    Raises IterableValidationError after MAX_ERRORS bad ones, or at the end if there are fewer.
    """
    found: list[Any] = []
    errors: list[Exception] = []
    for place, item, kind in items:
        try:
            found.append(read(item, kind))
        except Exception as error:
            error.add_note(cattrs.IterableValidationNote(f"in {target} at {place!r}", place, kind))
            errors.append(error)
            if len(errors) == MAX_ERRORS:
                break
    if errors:
        raise cattrs.IterableValidationError("", errors, target)  # type: ignore[call-arg]
    return found


def _list_factory(target: Any, structurer: Any) -> Any:
    (kind,) = get_args(target)
    read = structurer.get_structure_hook(kind)

    def hook(value: Any, _: Any) -> list[Any]:
        if type(value) is not list:
            raise TypeError(field_messages.LIST)
        check_size(value, MAX_ITEMS)
        return _read_each(((place, item, kind) for place, item in enumerate(value)), target, read)

    return hook


def _map_factory(target: Any, structurer: Any) -> Any:
    _, kind = get_args(target)
    read = structurer.get_structure_hook(kind)

    def hook(value: Any, _: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise TypeError(field_messages.OBJECT)
        check_size(value, MAX_ITEMS)
        _read_each(((name, name, str) for name in value), target, read_text)
        items = _read_each(((name, item, kind) for name, item in value.items()), target, read)
        return dict(zip(value, items, strict=True))

    return hook


def check_size(value: "list[Any] | dict[str, Any]", most: int) -> None:
    """Check that a list or map has at most `most` elements.

    Raises ValueError if it has more.
    """
    if len(value) > most:
        raise ValueError(
            field_messages.most_items(most) if isinstance(value, list) else field_messages.most_fields(most)
        )


converter.register_structure_hook_factory(lambda t: get_origin(t) is list, _list_factory)
converter.register_structure_hook_factory(lambda t: get_origin(t) is dict, _map_factory)
converter.register_structure_hook(str, read_text)
converter.register_structure_hook(int, _exact(int))
converter.register_structure_hook(bool, _exact(bool))
converter.register_structure_hook_func(lambda kind: isinstance(kind, NewType), _id)
converter.register_structure_hook_func(lambda kind: get_origin(kind) is Literal, read_text)
converter.register_structure_hook_factory(
    lambda kind: get_origin(kind) is Annotated,
    lambda kind, structurer: structurer.get_structure_hook(get_args(kind)[0]),
)
