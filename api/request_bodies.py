"""Strict request bodies: attrs classes structured by cattrs. Unknown fields are refused, and errors name their fields.

A handler declares its body with `dto=Body[X]`. The types of X have the allowed words and formats, its validators the
bounds.
"""

import re
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import attrs
import cattrs
from attrs import converters, validators
from litestar.dto import AbstractDTO, DTOConfig
from litestar.typing import FieldDefinition

from api.bad_fields import bad_fields, out_of_bounds, reason_of, too_long, unknown_fields
from api.json_reading import decode
from api.structuring import MAX_ERRORS, converter
from core.base import digits, field_messages, shown_texts
from core.base.errors import ValidationFailed
from core.base.field_types import MAX_INT
from core.base.languages import Text
from core.settings.fixed_codes import CODE_LENGTH

T = TypeVar("T")


def structure(value: Any, cls: type[T]) -> T:
    """Turn decoded JSON into a body.

    Raises ValidationFailed with the bad fields.
    """
    if not isinstance(value, dict):
        raise ValidationFailed.of("", field_messages.OBJECT)
    unknown = value.keys() - {field.name for field in attrs.fields(cls)}
    if len(unknown) > MAX_ERRORS:
        raise ValidationFailed(details={"fields": unknown_fields(unknown)})
    if bad := list(too_long(value, cls)):
        raise ValidationFailed(details={"fields": bad})
    try:
        # Bounds are checked below, field by field, because an error raised in __init__ would not name its field.
        with validators.disabled():
            body = converter.structure(value, cls)
    except cattrs.BaseValidationError as error:
        raise ValidationFailed(details={"fields": list(bad_fields(error))}) from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValidationFailed.of("", reason_of(error)) from error
    if bad := list(out_of_bounds(body)):
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
        """Return no schema: `api.documents.schemas` makes it from the class."""
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


def text(low: int, high: int, **more: Any) -> Any:
    """Return a field for a string of `low` to `high` characters."""
    return attrs.field(validator=[validators.min_len(low), validators.max_len(high)], **more)


def optional_text(low: int, high: int, **more: Any) -> Any:
    """Return an optional field for a string of `low` to `high` characters."""
    bounds = validators.optional([validators.min_len(low), validators.max_len(high)])
    return attrs.field(default=None, validator=bounds, **more)


def shown_text(most: int, *, optional: bool = False, low: int = 1, **more: Any) -> Any:
    """Return a field for a text that other people see, of `low` to `most` characters after NFC. Core checks the
    rest."""

    def bounds(_: object, __: object, value: str) -> None:
        if not low <= shown_texts.length_of(value) <= most:
            raise ValueError(field_messages.length(low, most))

    schema = {"minLength": low, "maxLength": most, **more.pop("schema", {})}
    if optional:
        return attrs.field(default=None, validator=validators.optional(bounds), metadata={"schema": schema}, **more)
    return attrs.field(validator=bounds, metadata={"schema": schema}, **more)


def _rule(pattern: re.Pattern[str], message: Text) -> Any:
    def check(_: object, __: object, value: str) -> None:
        if pattern.fullmatch(value) is None:
            raise ValueError(message)

    return check


_DIGITS = _rule(digits.DIGITS, field_messages.DIGITS)
_LETTERS = _rule(digits.ONE_TIME_CODE, field_messages.CODE)


def _code(read: Callable[[str], str], rules: list[Any], *, optional: bool) -> Any:
    if optional:
        read = converters.optional(read)
        return attrs.field(default=None, converter=read, validator=validators.optional(rules), repr=False)
    return attrs.field(converter=read, validator=rules, repr=False)


def phone_code(*, optional: bool = False) -> Any:
    """Return a field for a code that was sent to a phone. Digits of any script are read as 0 to 9."""
    rules = [validators.min_len(CODE_LENGTH), validators.max_len(CODE_LENGTH), _DIGITS]
    return _code(digits.in_ascii, rules, optional=optional)


def operator_code(*, letters: bool, optional: bool = False) -> Any:
    """Return a field for a code of an authenticator or, with `letters`, also for a recovery or enrolment code."""
    rules = [validators.min_len(1), validators.max_len(64), _LETTERS if letters else _DIGITS]
    return _code(lambda value: digits.in_ascii(value).strip(), rules, optional=optional)


def integer(low: int, high: int = MAX_INT, **more: Any) -> Any:
    """Return a field for a whole number from `low` to `high`."""
    return attrs.field(validator=[validators.ge(low), validators.le(high)], **more)


def optional_integer(low: int, high: int = MAX_INT, **more: Any) -> Any:
    """Return an optional field for a whole number from `low` to `high`."""
    return optional_number(low, high, **more)


def optional_number(low: int, high: int, **more: Any) -> Any:
    """Return an optional field for a number from `low` to `high`. The field's type decides whether it must be whole."""
    return attrs.field(default=None, validator=validators.optional([validators.ge(low), validators.le(high)]), **more)


def no_nulls(data: dict[str, Any], *, but: tuple[str, ...] = ()) -> None:
    """Reject nulls in a PATCH body, except for the fields in `but`. Absent fields are left unchanged.

    Raises ValidationFailed with the field.
    """
    for name, value in data.items():
        if value is None and name not in but:
            raise ValidationFailed.of(name, field_messages.NOT_NULL)
