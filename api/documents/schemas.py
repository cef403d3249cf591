"""JSON schemas of the attrs classes of request bodies (with their validators) and answers.

The first paragraph of a class's docstring is the schema's description.
"""

import datetime as dt
import re
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs

from api.structuring import without_none, words_of
from core.base.field_types import MAX_INT

Schema = dict[str, Any]
SOURCE = re.compile(r" \((?:docs/|contract|specification)[^)]*\)")
PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    bytes: {"type": "string"},
    dt.datetime: {"type": "string", "format": "date-time"},
    dt.date: {"type": "string", "format": "date"},
    Any: {},
}
LONGEST = {"array": "maxItems", "object": "maxProperties"}  # JSON type -> keyword; for all others it is maxLength


class Schemas:
    """The schema components of one document."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}
        self._owners: dict[str, Any] = {}

    def answer(self, kind: Any) -> Schema:
        """Return the schema of an answer. All its fields are required."""
        return self._of(kind, {}, body=None)

    def body(self, kind: Any, *, loose: bool, foreign: bool = False) -> Schema:
        """Return the schema of a request body, as a reference.

        `loose`: optional fields may be absent but not null. `foreign`: the body is not in our format, so unknown fields
        are allowed.
        """
        return self._class(kind, {}, body={"loose": loose, "foreign": foreign})

    def _of(self, kind: Any, bound: dict[Any, Any], body: dict[str, bool] | None) -> Schema:
        if kind in PLAIN:
            return dict(PLAIN[kind])
        if words := words_of(kind):
            return {"type": "string", "enum": [str(word) for word in words]}
        if isinstance(kind, NewType):
            return self._of(kind.__supertype__, bound, body)
        if isinstance(kind, TypeVar):
            if kind not in bound:
                raise TypeError("a generic answer says what it holds: `Items[Something]`")
            return self._of(bound[kind], {}, body)
        return self._composed(kind, bound, body)

    def _composed(self, kind: Any, bound: dict[Any, Any], body: dict[str, bool] | None) -> Schema:
        """Return the schema of a type that is made of others."""
        origin = get_origin(kind)
        if origin in (Union, UnionType):
            return self._union(get_args(kind), bound, body)
        if origin is Annotated:
            return self._annotated(kind, bound, body)
        if origin in (list, tuple, Sequence):
            return {"type": "array", "items": self._of(get_args(kind)[0], bound, body)}
        if origin is dict or kind is dict:
            value = get_args(kind)[1] if get_args(kind) else Any
            return {"type": "object", "additionalProperties": self._of(value, bound, body) or True}
        return self._class(kind, bound, body)

    def _annotated(self, kind: Any, bound: dict[Any, Any], body: dict[str, bool] | None) -> Schema:
        """Return a type's schema with the bounds and the format of its `msgspec.Meta`.

        Patterns are left out: they repeat the format, and a body may write an id in upper case.
        """
        inner, *more = get_args(kind)
        schema = self._of(inner, bound, body)
        for meta in more:
            limits = {"minimum": meta.ge, "maximum": meta.le, "description": meta.description}
            schema |= {name: value for name, value in limits.items() if value is not None}
            schema |= meta.extra_json_schema or {}
        return schema

    def _union(self, kinds: tuple[Any, ...], bound: dict[Any, Any], body: dict[str, bool] | None) -> Schema:
        options = [self._of(kind, bound, body) for kind in kinds if kind is not NoneType]
        if NoneType not in kinds:
            return options[0] if len(options) == 1 else {"anyOf": options}
        if len(options) > 1 or "$ref" in options[0]:
            return {"anyOf": [*options, {"type": "null"}]}
        return _nullable(options[0])

    def _class(self, kind: Any, bound: dict[Any, Any], body: dict[str, bool] | None) -> Schema:
        origin = get_origin(kind) or kind
        if not attrs.has(origin):
            raise TypeError(f"{kind} has no schema: annotate the route with an attrs class")
        given = tuple(bound.get(one, one) for one in get_args(kind))
        name = name_of(origin) if not given else f"{name_of(given[0])}{origin.__name__}"
        reference = {"$ref": f"#/components/schemas/{name}"}
        if name in self.components:
            if self._owners[name] != (origin, given):
                raise TypeError(f"two classes are called {name}")
            return reference
        self._owners[name] = (origin, given)
        self.components[name] = {}  # stored first, because a class may contain itself
        inner = dict(zip(getattr(origin, "__parameters__", ()), given, strict=False))
        self.components[name] = self._object(origin, inner, body)
        return reference

    def _object(self, kind: Any, bound: dict[Any, Any], body: dict[str, bool] | None) -> Schema:
        hints = get_type_hints(kind, include_extras=True)
        fields: dict[str, Schema] = {}
        required = []
        for field in attrs.fields(kind):
            hint = hints[field.name]
            schema = self._of(hint, bound, None) if body is None else self._body_field(field, hint, bound, body)
            fields[field.name] = schema | field.metadata.get("schema", {})
            if body is None or field.default is attrs.NOTHING:
                required.append(field.name)
        made: Schema = {"type": "object", "description": first_line(kind), "properties": fields}
        if required:
            made["required"] = required
        if body is not None and not body["foreign"]:
            made["additionalProperties"] = False
        return made

    def _body_field(self, field: Any, hint: Any, bound: dict[Any, Any], body: dict[str, bool]) -> Schema:
        """Return the schema of a body's field, with the bounds of its validators and its default."""
        schema = self._of(without_none(hint) if body["loose"] else hint, bound, body)
        _bound(schema, field.validator)
        if "integer" in _types(schema):
            schema.setdefault("maximum", MAX_INT)
        if isinstance(field.default, str | int | bool) and not body["loose"]:
            schema["default"] = field.default
        return schema


def name_of(kind: Any) -> str:
    """Return the name of a class in the document: its own, without `View`."""
    name: str = kind.__name__
    return name.removesuffix("View")


def first_line(documented: object) -> str:
    """Return the first paragraph of a docstring on one line, without links to the docs in parentheses."""
    paragraph = " ".join((documented.__doc__ or "").split("\n\n")[0].split())
    return SOURCE.sub("", paragraph)


def _types(schema: Schema) -> list[str]:
    kind = schema.get("type", [])
    return [kind] if isinstance(kind, str) else kind


def _nullable(schema: Schema) -> Schema:
    if not schema:
        return schema
    made = {**schema, "type": [*_types(schema), "null"]}
    if "enum" in schema:
        made["enum"] = [*schema["enum"], None]
    return made


def _bound(schema: Schema, validator: Any) -> None:
    """Add a validator's bounds to a schema. api/request_bodies.py has the validators that we use."""
    match type(validator).__name__:
        case "_AndValidator":
            for one in validator._validators:
                _bound(schema, one)
        case "_OptionalValidator":
            inner = validator.validator
            for one in inner if isinstance(inner, list | tuple) else [inner]:
                _bound(schema, one)
        case "_MinLengthValidator":
            schema["minLength"] = validator.min_length
        case "_MaxLengthValidator":
            bound = next((LONGEST[kind] for kind in _types(schema) if kind in LONGEST), "maxLength")
            schema[bound] = validator.max_length
        case "_NumberValidator":
            schema[{">=": "minimum", "<=": "maximum"}[validator.compare_op]] = validator.bound
        case _:
            pass  # a custom validator, whose bounds are in the field's `schema` metadata
