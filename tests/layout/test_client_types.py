"""The client library has a type of every route and code, and both documents say the same about an object."""

import msgspec

from api import apps
from api.refusals import METHOD_NOT_ALLOWED
from core.accounts.operators.rules import PasswordChangeRequired
from core.payments.rules import SessionInProgress
from core.settings.environment import read
from realtime import asyncapi, frames
from tools.pages import errors_page
from tools.pages.client_types import OTHER_CALLERS, Interfaces, Schema

REST: Schema = apps.interface("public")
SOCKETS: Schema = msgspec.json.decode(asyncapi.encoded(read({})))
DOCUMENT = Interfaces().document()


def members(schema: Schema, document: Schema) -> list[str]:
    """Return the members of the union that a schema is as a type, with the schemas that it refers to in place."""
    if "$ref" in schema:
        return members(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    if "enum" in schema:
        return sorted("null" if value is None else repr(value) for value in schema["enum"])
    if "const" in schema:
        return [repr(schema["const"])]
    kinds = schema.get("type")
    if kinds == "null":
        return ["null"]
    alternatives = schema.get("anyOf", [{**schema, "type": kind} for kind in kinds] if isinstance(kinds, list) else [])
    if alternatives:
        return sorted({member for one in alternatives for member in members(one, document)})
    if kinds == "array":
        return [f"{members(schema['items'], document)}[]"]
    fields = {name: members(one, document) for name, one in schema.get("properties", {}).items()}
    return [f"{fields} {sorted(schema.get('required', []))}" if fields else str(kinds)]


def test_objects_of_both_documents_have_one_type() -> None:
    framed = {one["payload"]["$ref"].rpartition("/")[2] for one in SOCKETS["components"]["messages"].values()}
    both = REST["components"]["schemas"].keys() & SOCKETS["components"]["schemas"].keys() - framed
    assert {"Session", "Message", "Extension", "PaymentRequest", "ChatRequest", "Person", "Closure"} <= both
    for name in both:
        by_rest, by_socket = (
            members(document["components"]["schemas"][name], document) for document in (REST, SOCKETS)
        )
        assert by_rest == by_socket


def test_every_current_route_of_apps_has_a_type() -> None:
    expected = {
        f"{method.upper()} {path}"
        for path, methods in REST["paths"].items()
        for method, operation in methods.items()
        if operation["tags"][0] not in OTHER_CALLERS and not operation.get("deprecated", False)
    }
    assert DOCUMENT["properties"].keys() == expected


def test_codes_of_types_are_error_codes() -> None:
    types = DOCUMENT["definitions"]
    named = {code for name in ("ErrorCode", "FrameErrorCode") for code in types[name]["anyOf"][0]["enum"]}
    assert named <= errors_page.codes().keys()
    assert {frames.INVALID_FRAME, SessionInProgress.code, METHOD_NOT_ALLOWED.code} <= named
    assert PasswordChangeRequired.code not in named  # of operators only


def test_fields_that_depend_on_another_make_one_type_for_each_value() -> None:
    searching, *_ = DOCUMENT["definitions"]["PairingStatusFrame"]["anyOf"]
    assert searching["properties"]["status"]["enum"] == ["searching"]
    assert "asked" in searching["required"]
    assert "cause_tag" not in searching["properties"]


def test_enumerations_keep_their_names_also_where_null_is_allowed() -> None:
    types = DOCUMENT["definitions"]
    assert types["Session"]["properties"]["status"] == {"$ref": "#/definitions/SessionStatus"}
    nullable = types["PaymentFailure"]["properties"]["operator_action"]
    assert nullable == {"anyOf": [{"$ref": "#/definitions/OperatorAction"}, {"type": "null"}]}
