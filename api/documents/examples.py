"""Examples of request bodies, made from their schemas: required fields, and those in EXAMPLES."""

from typing import Any

from core.config.keys import KEYS, Shape

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


def _value(schema: Schema) -> Any:
    """Return the simplest value that is valid for a schema without fields."""
    if "enum" in schema:
        return schema["enum"][0]
    kinds = schema.get("type", "null")
    match kinds if isinstance(kinds, str) else kinds[0]:
        case "string":
            made = {"uuid": UUID, "date-time": TIME}.get(schema.get("format", ""))
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
