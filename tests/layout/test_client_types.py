"""The client library's types of the wire are current, and say the same about an object in both documents."""

from typing import Any

import msgspec
import pytest

from api import apps
from api.refusals import METHOD_NOT_ALLOWED
from core.accounts.operators.rules import PasswordChangeRequired
from core.payments.rules import SessionInProgress
from core.settings.environment import read
from realtime import asyncapi, frames
from tools.pages import client_types, errors_page
from tools.pages import typescript_schemas as typescript
from tools.pages.typescript_schemas import Namer, Schema

REST: Schema = apps.interface("public")
SOCKETS: Schema = msgspec.json.decode(asyncapi.encoded(read({})))
NOTHING = Namer({}, {})


def resolved(schema: Any, document: Schema) -> Any:
    """Return a schema with the schemas that it refers to in place, and without texts."""
    if isinstance(schema, list):
        return [resolved(one, document) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return resolved(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    return {key: resolved(value, document) for key, value in schema.items() if key != "description"}


def test_wire_types_are_current() -> None:
    assert client_types.FILE.read_text() == client_types.page(), "run `make pages`"


def test_objects_of_both_documents_have_one_type() -> None:
    framed = {one["payload"]["$ref"].rpartition("/")[2] for one in SOCKETS["components"]["messages"].values()}
    both = REST["components"]["schemas"].keys() & SOCKETS["components"]["schemas"].keys() - framed
    assert {"Session", "Message", "Extension", "PaymentRequest", "ChatRequest", "Person", "Closure"} <= both
    for name in both:
        by_rest, by_socket = (
            typescript.declaration(name, resolved(document["components"]["schemas"][name], document), NOTHING)
            for document in (REST, SOCKETS)
        )
        assert by_rest == by_socket


def test_every_current_route_of_apps_has_a_type() -> None:
    text = client_types.page()
    for path, methods in REST["paths"].items():
        for method, operation in methods.items():
            other = operation["tags"][0] in client_types.OTHER_CALLERS or operation.get("deprecated", False)
            assert (f'  "{method.upper()} {path}": {{' in text) != other


def test_codes_of_types_are_error_codes() -> None:
    found = client_types.interfaces().views
    named = {code for name in ("ErrorCode", "FrameErrorCode") for code in found[name]["anyOf"][0]["enum"]}
    assert named <= errors_page.codes().keys()
    assert {frames.INVALID_FRAME, SessionInProgress.code, METHOD_NOT_ALLOWED.code} <= named
    assert PasswordChangeRequired.code not in named  # of operators only


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": ["string", "null"]}, "string | null"),
        ({"type": "array", "items": {"type": ["integer", "null"]}}, "(number | null)[]"),
        ({"type": ["string", "null"], "enum": ["b", "a", None]}, '"a" | "b" | null'),
        ({"anyOf": [{"type": "string", "enum": ["A"]}, {"type": "string"}]}, '"A" | (string & {})'),
        ({"anyOf": [{"$ref": "#/components/schemas/One"}, {"type": "null"}]}, "One | null"),
        ({"type": "object", "properties": {"a-b": {"type": "boolean"}}}, '{ "a-b"?: boolean }'),
        ({"type": "object", "additionalProperties": True}, "Record<string, unknown>"),
        ({}, "unknown"),
    ],
)
def test_schema_becomes_its_type(schema: Schema, expected: str) -> None:
    assert typescript.type_of(schema, NOTHING) == expected
