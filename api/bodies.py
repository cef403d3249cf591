"""Strict request bodies: attrs classes structured by cattrs, unknown fields refused, every error with its field.

A body is `dto=Body[X]` on the handler; validators on X say its bounds.
"""

import datetime as dt
import enum
import json
import re
from collections.abc import Iterator
from typing import Any, Generic, NewType, TypeVar, get_origin

import attrs
import cattrs
import msgspec
from attrs import validators
from cattrs.cols import list_structure_factory, mapping_structure_factory
from cattrs.preconf.json import make_converter
from litestar.dto import AbstractDTO, DTOConfig
from litestar.typing import FieldDefinition

from core.base.errors import NotFound, ValidationFailed
from core.base.ids import parse_id

T = TypeVar("T")
MAX_INT = 2**31 - 1


# A UUID, in its canonical form.
Id = NewType("Id", str)


def _exact(kind: type) -> Any:
    def hook(value: Any, _: type) -> Any:
        if type(value) is not kind:
            raise TypeError(f"must be a {kind.__name__}")
        return value

    return hook


def _text(value: Any, _: type) -> str:
    if type(value) is not str:
        raise TypeError("must be a string")
    if "\0" in value:
        raise ValueError("has no NUL character")
    return value


def _id(value: Any, _: type) -> Id:
    found = parse_id(value)
    if found is None:
        raise ValueError("must be a UUID")
    return Id(found)


converter = make_converter(forbid_extra_keys=True, detailed_validation=True)


def _exact_container(kind: type, factory: Any) -> Any:
    """A list is a list: by itself cattrs takes whatever can be walked, a string's letters too."""

    def make(target: Any, structurer: Any) -> Any:
        inner = factory(target, structurer)

        def hook(value: Any, into: Any) -> Any:
            if type(value) is not kind:
                raise TypeError(f"must be a {'list' if kind is list else 'JSON object'}")
            return inner(value, into)

        return hook

    return make


converter.register_structure_hook_factory(
    lambda t: get_origin(t) is list, _exact_container(list, list_structure_factory)
)
converter.register_structure_hook_factory(
    lambda t: get_origin(t) is dict, _exact_container(dict, mapping_structure_factory)
)
converter.register_structure_hook(str, _text)
converter.register_structure_hook(int, _exact(int))
converter.register_structure_hook(bool, _exact(bool))
converter.register_structure_hook_func(lambda kind: kind is Id, _id)


def _reason(error: BaseException, _: type | None) -> str:
    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        return "unknown fields: " + json.dumps(sorted(map(str, error.extra_fields)))
    if isinstance(error, KeyError):
        return "is required"
    if isinstance(error, ValueError | TypeError):
        return str(error.args[0] if error.args else error)[:200]
    return "is not valid"


def _fields(error: BaseException) -> list[dict[str, str]]:
    found = []
    for line in cattrs.transform_error(error, path="$", format_exception=_reason):
        message, _, path = line.rpartition(" @ ")
        name = path.removeprefix("$").removeprefix(".")
        if message.startswith("unknown fields: "):
            names = json.loads(message.removeprefix("unknown fields: "))
            found += [{"field": unknown, "message": "is unknown"} for unknown in names]
        else:
            found.append({"field": name, "message": message})
    return found


def _out_of_bounds(body: Any) -> Iterator[dict[str, str]]:
    for field in attrs.fields(type(body)):
        if field.validator is None:
            continue
        try:
            field.validator(body, field, getattr(body, field.name))
        except (ValueError, TypeError) as error:
            yield {"field": field.name, "message": _reason(error, None)}


def structure(value: Any, cls: type[T]) -> T:
    """Turn decoded JSON into a body. Raises ValidationFailed that names every bad field."""
    if not isinstance(value, dict):
        raise ValidationFailed.of("", "must be a JSON object")
    try:
        # Bounds are checked below, field by field: an error out of __init__ would not say whose it is.
        with validators.disabled():
            body = converter.structure(value, cls)
    except cattrs.BaseValidationError as error:
        raise ValidationFailed(details={"fields": _fields(error)}) from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValidationFailed.of("", str(error)[:200]) from error
    if bad := list(_out_of_bounds(body)):
        raise ValidationFailed(details={"fields": bad})
    return body


class Body(AbstractDTO[T], Generic[T]):
    """Decodes a request body strictly."""

    config = DTOConfig()

    @classmethod
    def generate_field_definitions(cls, model_type: type[Any]) -> Any:
        """None: cattrs does the work."""
        yield from ()

    @classmethod
    def detect_nested_field(cls, field_definition: FieldDefinition) -> bool:
        """Likewise."""
        return False

    @classmethod
    def create_for_field_definition(
        cls, field_definition: FieldDefinition, handler_id: str, backend_cls: Any = None
    ) -> None:
        """Likewise."""

    @classmethod
    def create_openapi_schema(cls, field_definition: FieldDefinition, handler_id: str, schema_creator: Any) -> Any:
        """The class is the schema."""
        return schema_creator.for_field_definition(field_definition)

    def decode_bytes(self, value: bytes) -> Any:
        """Read JSON, then structure it."""
        return self.decode_builtins(_decode(value))

    def decode_builtins(self, value: Any) -> Any:
        """Structure what is decoded already."""
        return structure(value, self.model_type)


class JsonObject(Body[dict[str, Any]]):
    """Decodes a body whose fields the handler checks by itself: an absent one means something else than null."""

    def decode_builtins(self, value: Any) -> Any:
        """An object, of whatever fields."""
        if not isinstance(value, dict):
            raise ValidationFailed.of("", "must be a JSON object")
        return value


def _decode(value: bytes) -> Any:
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise ValidationFailed.of("", "is not JSON") from error


def text(low: int, high: int, **more: Any) -> Any:
    """A string of so many characters."""
    return attrs.field(validator=[validators.min_len(low), validators.max_len(high)], **more)


def optional_text(low: int, high: int, **more: Any) -> Any:
    """A string of so many characters, or nothing."""
    bounds = validators.optional([validators.min_len(low), validators.max_len(high)])
    return attrs.field(default=None, validator=bounds, **more)


def integer(low: int, high: int = MAX_INT, **more: Any) -> Any:
    """A whole number within bounds."""
    return attrs.field(validator=[validators.ge(low), validators.le(high)], **more)


def optional_integer(low: int, high: int = MAX_INT) -> Any:
    """A whole number within bounds, or nothing."""
    return attrs.field(default=None, validator=validators.optional([validators.ge(low), validators.le(high)]))


def choice(*options: str, **more: Any) -> Any:
    """One of some words."""
    return attrs.field(validator=validators.in_(options), **more)


def no_nulls(data: dict[str, Any], *, but: tuple[str, ...] = ()) -> None:
    """In a patch absent means as it is; null means nothing, except where a field may be empty. Raises ValidationFailed."""
    for name, value in data.items():
        if value is None and name not in but:
            raise ValidationFailed.of(name, "can't be null")


def path_id(value: str) -> str:
    """Return a path's id. Raises NotFound for what is no id: there is nothing under it."""
    found = parse_id(value)
    if found is None:
        raise NotFound
    return found


def query_id(name: str, value: str | None) -> str | None:
    """Return a query's id. Raises ValidationFailed unless it is a UUID."""
    if value is None:
        return None
    found = parse_id(value)
    if found is None:
        raise ValidationFailed.of(name, "must be a UUID")
    return found


def query_choice(name: str, value: str | None, options: type[enum.StrEnum]) -> str | None:
    """Return a query's word. Raises ValidationFailed unless it is one of the options."""
    if value is not None and value not in set(options):
        raise ValidationFailed.of(name, f"is one of {', '.join(options)}")
    return value


def query_time(name: str, value: str | None) -> dt.datetime | None:
    """Return a query's time. Raises ValidationFailed unless it is ISO 8601 with a zone."""
    if value is None:
        return None
    try:
        # A "+" that was not escaped arrives as a space.
        at = dt.datetime.fromisoformat(re.sub(r" (\d\d:\d\d)$", r"+\1", value))
        if at.tzinfo is None:
            raise ValidationFailed.of(name, "must have a zone")
        return at.astimezone(dt.UTC)
    except (ValueError, OverflowError) as error:
        raise ValidationFailed.of(name, "must be an ISO 8601 time") from error
