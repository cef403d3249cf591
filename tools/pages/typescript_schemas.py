"""Write JSON schemas, as the interface documents of this project have them, as TypeScript types."""

import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

Schema = dict[str, Any]
PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
WIDTH = 116
WORD = re.compile(r"[A-Za-z_$][\w$]*")


@attrs.frozen
class Namer:
    """The names of types: those of references, and of enumerations that are written out in a schema.

    `renamed` is schema -> type, for types that are not called like their schema; `enums` is values -> type.
    """

    renamed: dict[str, str]
    enums: dict[frozenset[str], str]

    def of(self, reference: str) -> str:
        """Return the type that a reference leads to."""
        name = reference.rpartition("/")[2]
        return self.renamed.get(name, name)


def enum_names(schemas: dict[str, Schema]) -> dict[frozenset[str], str]:
    """Return values -> name of the schemas that are nothing but an enumeration."""
    return {frozenset(one["enum"]): name for name, one in schemas.items() if "enum" in one}


def references(schema: Any) -> Iterator[str]:
    """Yield the name of each schema that a schema refers to directly."""
    if isinstance(schema, dict):
        if isinstance(reference := schema.get("$ref"), str):
            yield reference.rpartition("/")[2]
        for one in schema.values():
            yield from references(one)
    elif isinstance(schema, list):
        for one in schema:
            yield from references(one)


def declaration(name: str, schema: Schema, namer: Namer) -> str:
    """Return the exported type of a schema, with its description as a doc comment."""
    if variants := schema.get("allOf"):
        return _variants(name, schema, variants, namer)
    if schema.get("properties"):
        body = f"export interface {name} {{\n{_fields(schema, namer, '  ')}}}\n"
    else:
        body = _alias(name, _of_values(schema) if "enum" in schema else type_of(schema, namer))
    return comment(schema.get("description", "")) + body


def _variants(name: str, schema: Schema, variants: list[Schema], namer: Namer) -> str:
    """Return a union with one object type for each condition of `allOf`: its fields depend on the value of another."""
    members = []
    for one in variants:
        ((choice, chosen),) = one["if"]["properties"].items()
        absent = {field for field, allowed in one["then"]["properties"].items() if allowed is False}
        fields = {field: kind for field, kind in schema["properties"].items() if field not in absent}
        required = [*schema["required"], *one["then"]["required"]]
        part = {"properties": {**fields, choice: chosen}, "required": required}
        members.append(f"\n  | {{\n{_fields(part, namer, '      ')}    }}")
    return comment(schema.get("description", "")) + f"export type {name} =" + "".join(members) + ";\n"


def _alias(name: str, kind: str) -> str:
    """Return a type alias; a long union has one member a line."""
    line = f"export type {name} = {kind};\n"
    if len(line) <= WIDTH or " | " not in kind:
        return line
    return f"export type {name} =" + "".join(f"\n  | {one}" for one in kind.split(" | ")) + ";\n"


def comment(text: str, indent: str = "") -> str:
    """Return a doc comment with line breaks; empty for an empty text."""
    paragraphs = [one.split() for one in text.replace("*/", "* /").split("\n\n")]
    lines = [line for words in paragraphs for line in ["", *textwrap.wrap(" ".join(words), WIDTH - len(indent))]][1:]
    if not lines:
        return ""
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    return f"{indent}/**\n" + "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines) + f"{indent} */\n"


def type_of(schema: Schema, namer: Namer) -> str:
    """Return the type expression of a schema."""
    if "$ref" in schema:
        return namer.of(schema["$ref"])
    if "enum" in schema:
        return _enum(schema, namer)
    if alternatives := schema.get("anyOf", schema.get("oneOf")):
        if "enum" in alternatives[0] and PLAIN.get(alternatives[-1].get("type")) == "string":
            # Known values and any other string: a plain `string` would hide the known ones from editors.
            return union([_enum(alternatives[0], namer), "(string & {})"])
        return union(type_of(one, namer) for one in alternatives)
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return union(type_of({**schema, "type": kind}, namer) for kind in kinds)
    if kinds == "array":
        item = type_of(schema.get("items", {}), namer)
        return f"({item})[]" if " | " in item else f"{item}[]"
    if kinds == "object":
        return _object(schema, namer)
    return PLAIN.get(str(kinds), "unknown")


def union(types: Iterable[str]) -> str:
    """Return a union in the given order, each type once."""
    return " | ".join(dict.fromkeys(types))


def property_name(name: str) -> str:
    """Return a name as an object type has it, in quotes if it is not an identifier."""
    return name if WORD.fullmatch(name) else json.dumps(name)


def _object(schema: Schema, namer: Namer) -> str:
    if schema.get("properties"):
        fields = "; ".join(f"{name}: {kind}" for name, kind, _ in _properties(schema, namer))
        return f"{{ {fields} }}"
    values = schema.get("additionalProperties")
    return f"Record<string, {type_of(values, namer) if isinstance(values, dict) and values else 'unknown'}>"


def _fields(schema: Schema, namer: Namer, indent: str) -> str:
    lines = []
    for name, kind, described in _properties(schema, namer):
        lines.append(comment(described, indent) + f"{indent}{name}: {kind};\n")
    return "".join(lines)


def _properties(schema: Schema, namer: Namer) -> Iterator[tuple[str, str, str]]:
    """Yield (name, with `?` if it may be absent; type; description) of an object's fields."""
    required = set(schema.get("required", ()))
    for name, one in schema["properties"].items():
        yield property_name(name) + ("" if name in required else "?"), type_of(one, namer), one.get("description", "")


def _enum(schema: Schema, namer: Namer) -> str:
    values = [one for one in schema["enum"] if one is not None]
    named = namer.enums.get(frozenset(values))
    kind = named or _of_values({"enum": values})
    return f"{kind} | null" if None in schema["enum"] else kind


def _of_values(schema: Schema) -> str:
    return " | ".join(json.dumps(value) for value in sorted(schema["enum"], key=str))
