"""Strict request bodies: attrs classes structured by cattrs. Unknown fields are refused, and errors name their fields.

A handler declares its body with `dto=Body[X]`; the validators of X are its bounds.

The cost of a refusal must not grow with the body. So lists and maps are counted before their elements are read, and
structuring a list or map stops after MAX_ERRORS errors.
"""

import datetime as dt
import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, Literal, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs
import cattrs
import msgspec
from attrs import validators
from cattrs.preconf.json import make_converter
from litestar.dto import AbstractDTO, DTOConfig
from litestar.typing import FieldDefinition

from core.base import field_messages
from core.base.errors import NotFound, ValidationFailed
from core.base.field_types import Id
from core.base.ids import parse_id
from core.base.languages import Text

T = TypeVar("T")
MAX_INT = 2**31 - 1
MAX_VALUES = 4_096  # in all lists and maps of a body together; the largest valid body has about 1,500
MAX_DEPTH = 64  # of nested lists and maps: deeper than any valid body, and far below the recursion limit
MAX_ITEMS = 1_000  # in a list or map whose field declares no bound
LENGTHS = ("min_length", "max_length")  # attributes of attrs' validators
MAX_ERRORS = 20  # bad fields in an answer; reading a list or map stops after this many

BadField = dict[str, Any]  # {"field": str, "message": Text}


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


def _text(value: Any, kind: Any) -> str:
    """Return a string; as a member of the enum if that is the type and has it. `_out_of_bounds` refuses other words."""
    if type(value) is not str:
        raise TypeError(field_messages.STRING)
    if "\0" in value:
        raise ValueError(field_messages.NO_NUL)
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
        _check_size(value, MAX_ITEMS)
        return _read_each(((place, item, kind) for place, item in enumerate(value)), target, read)

    return hook


def _map_factory(target: Any, structurer: Any) -> Any:
    _, kind = get_args(target)
    read = structurer.get_structure_hook(kind)

    def hook(value: Any, _: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise TypeError(field_messages.OBJECT)
        _check_size(value, MAX_ITEMS)
        _read_each(((name, name, str) for name in value), target, _text)
        items = _read_each(((name, item, kind) for name, item in value.items()), target, read)
        return dict(zip(value, items, strict=True))

    return hook


def _check_size(value: "list[Any] | dict[str, Any]", most: int) -> None:
    """Check that a list or map has at most `most` elements.

    Raises ValueError if it has more.
    """
    if len(value) > most:
        raise ValueError(
            field_messages.most_items(most) if isinstance(value, list) else field_messages.most_fields(most)
        )


converter.register_structure_hook_factory(lambda t: get_origin(t) is list, _list_factory)
converter.register_structure_hook_factory(lambda t: get_origin(t) is dict, _map_factory)
converter.register_structure_hook(str, _text)
converter.register_structure_hook(int, _exact(int))
converter.register_structure_hook(bool, _exact(bool))
converter.register_structure_hook_func(lambda kind: isinstance(kind, NewType), _id)
converter.register_structure_hook_func(lambda kind: get_origin(kind) is Literal, _text)
converter.register_structure_hook_factory(
    lambda kind: get_origin(kind) is Annotated,
    lambda kind, structurer: structurer.get_structure_hook(get_args(kind)[0]),
)


def _reason(error: BaseException) -> Text:
    """Return the message about a bad field; errors of our own hooks and validators contain it."""
    if isinstance(error, KeyError):
        return field_messages.REQUIRED
    if error.args and isinstance(error.args[0], Text):
        return error.args[0]
    return field_messages.INVALID


def _fields(error: BaseException, path: str = "") -> Iterator[BadField]:
    """Yield each bad field of a body that could not be structured."""
    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        yield from _unknown(error.extra_fields)
    elif isinstance(error, cattrs.IterableValidationError):
        for inner, note in error.group_exceptions()[0]:
            yield from _fields(inner, f"{path}[{note.index!r}]")
    elif isinstance(error, cattrs.ClassValidationError):
        named, others = error.group_exceptions()
        for inner, note in named:
            yield from _fields(inner, f"{path}.{note.name}")
        for inner in others:
            yield from _fields(inner, path)
    else:
        yield {"field": path.removeprefix("."), "message": _reason(error)}


def _unknown(names: Iterable[str]) -> list[BadField]:
    return [{"field": name, "message": field_messages.UNKNOWN} for name in sorted(names)]


def _out_of_bounds(body: Any) -> Iterator[BadField]:
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
            return _reason(error)
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


def _too_long(value: dict[str, Any], cls: Any) -> Iterator[BadField]:
    """Yield the list and map fields with too many elements."""
    for name, most in _bounds_of(cls).items():
        if isinstance(found := value.get(name), list | dict):
            try:
                _check_size(found, most)
            except ValueError as error:
                yield {"field": name, "message": _reason(error)}


def structure(value: Any, cls: type[T]) -> T:
    """Turn decoded JSON into a body.

    Raises ValidationFailed with the bad fields.
    """
    if not isinstance(value, dict):
        raise ValidationFailed.of("", field_messages.OBJECT)
    unknown = value.keys() - {field.name for field in attrs.fields(cls)}
    if len(unknown) > MAX_ERRORS:
        raise ValidationFailed(details={"fields": _unknown(unknown)})
    if bad := list(_too_long(value, cls)):
        raise ValidationFailed(details={"fields": bad})
    try:
        # Bounds are checked below, field by field, because an error raised in __init__ would not name its field.
        with validators.disabled():
            body = converter.structure(value, cls)
    except cattrs.BaseValidationError as error:
        raise ValidationFailed(details={"fields": list(_fields(error))}) from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValidationFailed.of("", _reason(error)) from error
    if bad := list(_out_of_bounds(body)):
        raise ValidationFailed(details={"fields": bad})
    return body


class Body(AbstractDTO[T], Generic[T]):
    """Decodes a request body strictly."""

    config = DTOConfig()

    @classmethod
    def generate_field_definitions(cls, model_type: type[Any]) -> Any:
        """Return no definitions, because cattrs does the work."""
        yield from ()

    @classmethod
    def detect_nested_field(cls, field_definition: FieldDefinition) -> bool:
        """Return False, because cattrs does the work."""
        return False

    @classmethod
    def create_for_field_definition(
        cls, field_definition: FieldDefinition, handler_id: str, backend_cls: Any = None
    ) -> None:
        """Do nothing, because cattrs does the work."""

    @classmethod
    def create_openapi_schema(cls, field_definition: FieldDefinition, handler_id: str, schema_creator: Any) -> Any:
        """Return no schema: `api.schemas` makes it from the class."""
        return schema_creator.for_field_definition(field_definition)

    def decode_bytes(self, value: bytes) -> Any:
        """Read JSON, then structure it."""
        return self.decode_builtins(decode(value))

    def decode_builtins(self, value: Any) -> Any:
        """Structure decoded JSON."""
        return structure(value, self.model_type)


class JsonObject(Body[dict[str, Any]]):
    """Decodes a body whose fields the handler checks, because an absent field means something else than null."""

    def decode_builtins(self, value: Any) -> Any:
        """Return the object; its fields are unchecked."""
        if not isinstance(value, dict):
            raise ValidationFailed.of("", field_messages.OBJECT)
        return value


def decode(value: bytes) -> Any:
    """Return the decoded JSON of a body.

    Raises ValidationFailed if it is not JSON, or has too many or too deeply nested values.
    """
    try:
        read = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise ValidationFailed.of("", field_messages.JSON) from error
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


def text(low: int, high: int, **more: Any) -> Any:
    """Return a field for a string of `low` to `high` characters."""
    return attrs.field(validator=[validators.min_len(low), validators.max_len(high)], **more)


def optional_text(low: int, high: int, **more: Any) -> Any:
    """Return an optional field for a string of `low` to `high` characters."""
    bounds = validators.optional([validators.min_len(low), validators.max_len(high)])
    return attrs.field(default=None, validator=bounds, **more)


def integer(low: int, high: int = MAX_INT, **more: Any) -> Any:
    """Return a field for a whole number from `low` to `high`."""
    return attrs.field(validator=[validators.ge(low), validators.le(high)], **more)


def optional_integer(low: int, high: int = MAX_INT) -> Any:
    """Return an optional field for a whole number from `low` to `high`."""
    return optional_number(low, high)


def optional_number(low: int, high: int) -> Any:
    """Return an optional field for a number from `low` to `high`. The field's type decides whether it must be whole."""
    return attrs.field(default=None, validator=validators.optional([validators.ge(low), validators.le(high)]))


def no_nulls(data: dict[str, Any], *, but: tuple[str, ...] = ()) -> None:
    """Reject nulls in a PATCH body, except for the fields in `but`. Absent fields are left unchanged.

    Raises ValidationFailed with the field.
    """
    for name, value in data.items():
        if value is None and name not in but:
            raise ValidationFailed.of(name, field_messages.NOT_NULL)


def path_id(value: str) -> str:
    """Return the canonical id of a path parameter.

    Raises NotFound if it is not a UUID, because no object can have such an id.
    """
    found = parse_id(value)
    if found is None:
        raise NotFound
    return found


def query_id(name: str, value: str | None) -> str | None:
    """Return the canonical id of a query parameter; None if it is absent.

    Raises ValidationFailed if it is not a UUID.
    """
    if value is None:
        return None
    found = parse_id(value)
    if found is None:
        raise ValidationFailed.of(name, field_messages.UUID)
    return found


def query_choice(name: str, value: str | None, options: type[enum.StrEnum]) -> str | None:
    """Return the word of a query parameter; None if it is absent.

    Raises ValidationFailed if it is not one of the options.
    """
    if value is not None and value not in set(options):
        raise ValidationFailed.of(name, field_messages.one_of(options))
    return value


def query_time(name: str, value: str | None) -> dt.datetime | None:
    """Return the time of a query parameter, in UTC; None if it is absent.

    Raises ValidationFailed if it is not ISO 8601 with a time zone.
    """
    if value is None:
        return None
    try:
        # An unescaped "+" in a query is decoded as a space.
        at = dt.datetime.fromisoformat(re.sub(r" (\d\d:\d\d)$", r"+\1", value))
        if at.tzinfo is None:
            raise ValidationFailed.of(name, field_messages.TIME)
        return at.astimezone(dt.UTC)
    except (ValueError, OverflowError) as error:
        raise ValidationFailed.of(name, field_messages.TIME) from error
