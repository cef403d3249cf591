"""Examples of request bodies, made from their schemas: required fields, and those with an example in the vocabulary."""

from typing import Any

from api import vocabulary

Schema = dict[str, Any]


def example_of(schema: Schema, components: dict[str, Schema]) -> Any:
    """Return an example that is valid for a schema."""
    owner = ""
    if "$ref" in schema:
        owner = schema["$ref"].rpartition("/")[2]
        schema = components[owner]
    if "properties" not in schema:
        return _value(schema)
    needed = set(schema.get("required", []))
    made = {}
    for name, field in schema["properties"].items():
        try:
            made[name] = vocabulary.known(vocabulary.EXAMPLES, owner, name)
        except KeyError:
            if name in needed:
                made[name] = example_of(field, components)
    return made


def _value(schema: Schema) -> Any:
    """Return the simplest value that is valid for a schema without fields."""
    if "enum" in schema:
        return schema["enum"][0]
    kinds = schema.get("type", "null")
    match kinds if isinstance(kinds, str) else kinds[0]:
        case "string":
            made = {"uuid": vocabulary.UUID, "date-time": vocabulary.TIME}.get(schema.get("format", ""))
            return made or "x" * max(1, schema.get("minLength", 1))
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "array":
            return []
        case "object":
            return {}
    return None
