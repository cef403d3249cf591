"""Examples of request bodies and answers, made from their schemas.

A body has the required fields, and those in EXAMPLES. An answer has all fields: an object of the chat is that of the
examples of frames, and the other fields are those of ANSWERS and EXAMPLES.
"""

from typing import Any

import attrs
import msgspec

from core.config.keys import KEYS, Shape
from core.pairing.events import REQUEST
from core.payments.events import REFUNDED
from core.payments.states import PaymentStatus
from core.sessions.examples import AYU, DEWI, EXTENSION, MESSAGE, RUNNING

Schema = dict[str, Any]

UUID = "01933f2e-8a4c-7d3b-9f10-5a6b7c8d9e0f"
TIME = "2026-11-21T06:00:00Z"
# Field -> its value in examples of bodies. Optional fields without one are left out of the example.
EXAMPLES: dict[str, Any] = {
    "otp_request_id": UUID,
    "phone": "+6281234567890",
    "display_name": "Dewi",
    "email": "root@example.test",
    "password": "correct horse battery staple",
    "current_password": "the previous battery staple",
    "new_password": "correct horse battery staple",
    "minutes": 12,
    "price_idr": 12000,
    "items": [{"id": UUID, "updated_at": "2026-11-21T06:00:00.000000Z"}],
    "updated_at": "2026-11-21T06:00:00.000000Z",
    "refresh_token": "a-refresh-token",
    "code": "123456",
    "mode": "chat",
    "duration_minutes": 12,
    "content": "Halo Kak, aku butuh teman bicara.",
    "MakeGoodBody.amount": 5000,
    "ReportBody.reason": "rude",
    "MakeGoodBody.reason": "The mitra was silent for five minutes.",
    "reason": "The customer asked support to end the session.",
    "message": "Terima kasih, sampai jumpa.",
    "up_to": 4,
    "is_active": True,
    "require_ping": True,
    "stale_after_seconds": 45,
    "operator_action": "refunded",
    "RefundsBody.ids": [UUID],
    "topics": ["pekerjaan"],
    "MessageBody.type": "text",
    "ConfigValue.value": 45,
    "SimulationBody.settings": {"blast_size": 5, "blast_wave_seconds": 15},
    "SimulationBody.extra_shifts": ["2@fri/18:00-22:00"],
    "GatewayCall.id": "inv-2026-0001",
    "GatewayCall.external_id": UUID,
    "GatewayCall.status": "PAID",
    "GatewayCall.amount": 12000,
    "GatewayCall.currency": "IDR",
    "GatewayCall.metadata": {"app": "sesi"},
    "role_id": UUID,
    "permissions": {"mitras": "read"},
    "name": "support",
    "push_token": "a-push-token",
    "identity_token": "an-identity-token",
}
# Field -> its value in examples of answers, if it is another one than in bodies.
ANSWERS: dict[str, Any] = {
    "access_token": "eyJhbGciOiJIUzI1NiIsImtpZCI6IjIwMjZhIn0.eyJ0eXAiOiJjdXN0b21lciJ9.c2lnbmF0dXJl",
    "token_type": "Bearer",
    "expires_in": 900,
    "next_cursor": None,
    "gateway_invoice_url": "https://pay.example.test/web/inv-2026-0001",
    "Customer.account_belongs_to": None,
    "Customer.email": None,
    "Customer.is_anonymous": False,
    "android": "1.4.0",
    "ios": "1.4.0",
    "web": "1.4.0",
}
OBJECTS: dict[str, Any] = {
    "Session": RUNNING,
    "PaymentRequest": attrs.evolve(
        REFUNDED, status=PaymentStatus.PENDING, confirmed_at=None, failure=None, refund=None
    ),
    "Extension": EXTENSION,
    "Message": MESSAGE,
    "ChatRequest": REQUEST,
    "Person": DEWI,
}
PATH_EXAMPLES = {"key": next(key.name for key in KEYS.values() if key.shape is Shape.NUMBER)}


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
            made[name] = known(EXAMPLES, owner, name)
        except KeyError:
            if name in needed:
                made[name] = example_of(field, components)
    return made


def answer_of(schema: Schema, components: dict[str, Schema], *, name: str = "", within: tuple[str, ...] = ()) -> Any:
    """Return an example of an answer that is valid for a schema. `within`: the objects that it is a part of."""
    if "anyOf" in schema:
        return answer_of(schema["anyOf"][0], components, name=name, within=within)
    owner = ""
    if "$ref" in schema:
        owner = schema["$ref"].rpartition("/")[2]
        schema, within = components[owner], (*within, owner)
        if owner in OBJECTS:
            return msgspec.to_builtins(AYU if name == "mitra" else OBJECTS[owner])
    if "properties" in schema:
        return {
            field: _answer_field(owner, field, inner, components, within)
            for field, inner in schema["properties"].items()
        }
    if "items" in schema:
        inner = schema["items"]
        again = inner.get("$ref", "").rpartition("/")[2] in within
        return [] if again else [answer_of(inner, components, name=name, within=within)]
    if name and schema.get("type") in ("string", ["string", "null"]) and schema.keys() <= {"type", "description"}:
        return name.replace("_", " ")
    return _value(schema)


def _answer_field(
    owner: str, field: str, schema: Schema, components: dict[str, Schema], within: tuple[str, ...]
) -> Any:
    for table in (ANSWERS, EXAMPLES):
        try:
            value = known(table, owner, field)
        except KeyError:
            continue
        if _fits(value, schema):
            return value
    return answer_of(schema, components, name=field, within=within)


def _fits(value: Any, schema: Schema) -> bool:
    """Return whether a value has the type of a schema, and is one of its words."""
    kinds = schema.get("type", ())
    types = {
        "string": str,
        "integer": int,
        "number": int,
        "boolean": bool,
        "array": list,
        "object": dict,
        "null": type(None),
    }
    fits = any(type(value) is types[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds))
    plain = "properties" not in schema and schema.get("items", {"type": "string"}).get("type") == "string"
    return fits and plain and ("enum" not in schema or value in schema["enum"])


def _value(schema: Schema) -> Any:
    """Return the simplest value that is valid for a schema without fields."""
    if "enum" in schema:
        return schema["enum"][0]
    kinds = schema.get("type", "null")
    match kinds if isinstance(kinds, str) else kinds[0]:
        case "string":
            made = {"uuid": UUID, "date-time": TIME, "date": TIME[:10]}.get(schema.get("format", ""))
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


def known(table: dict[str, Any], owner: str, name: str) -> Any:
    """Return a field's entry in a table, by "Class.field" or else by its name.

    Raises KeyError without one.
    """
    return table[f"{owner}.{name}"] if f"{owner}.{name}" in table else table[name]
