"""The schemas of all frames, and of the views in them, for the AsyncAPI document."""

import inspect
import re
from typing import Any

import msgspec

from realtime.frame_examples import CLIENT, SERVER
from realtime.pairing_frames import FIELD_OF_STATUS

SCHEMA = "#/components/schemas/{name}"
# References to the project's docs, which readers of the document do not have at hand.
SOURCES = re.compile(r"\s*\(docs/[^)]*\)")


def published(docstring: str) -> str:
    """Return a docstring as the document has it, without references to the project's docs."""
    return SOURCES.sub("", inspect.cleandoc(docstring))


def schemas() -> dict[str, Any]:
    """Return the schema of every class. Those of server frames allow more fields, because fields may be added."""
    received = sorted({type(one) for one in CLIENT}, key=lambda frame: frame.__name__)
    sent = sorted({type(one) for one in SERVER}, key=lambda frame: frame.__name__)
    _, strict = msgspec.json.schema_components(received, ref_template=SCHEMA)
    _, open_ = msgspec.json.schema_components(sent, ref_template=SCHEMA)
    for name, schema in open_.items():
        schema.pop("additionalProperties", None)
        if name.endswith("View"):  # always sent whole; a default is for objects that earlier releases have stored
            schema["required"] = list(schema["properties"])
    made = {_name_of(name): _renamed(schema) for name, schema in {**strict, **open_}.items()}
    for name, schema in made.items():
        schema["title"] = name
        if "description" in schema:
            schema["description"] = published(schema["description"])
    made["PairingStatus"]["allOf"] = _variants("status", FIELD_OF_STATUS)
    return made


def _variants(choice: str, field_of: dict[str, str]) -> list[dict[str, Any]]:
    """Return which field an object has for each value of `choice`, as conditions of JSON Schema."""
    return [
        {
            "if": {"properties": {choice: {"enum": [value]}}},
            "then": {
                "required": [field],
                "properties": dict.fromkeys(sorted(set(field_of.values()) - {field}), False),
            },
        }
        for value, field in field_of.items()
    ]


def _name_of(name: str) -> str:
    """Return the name of a class in the document, which is that of the OpenAPI document."""
    return name.removesuffix("View")


def _renamed(schema: Any) -> Any:
    """Return a schema whose references have the names of the document."""
    if isinstance(schema, list):
        return [_renamed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(ref := schema.get("$ref"), str):
        return {**schema, "$ref": SCHEMA.format(name=_name_of(ref.rpartition("/")[2]))}
    return {key: _renamed(value) for key, value in schema.items()}
