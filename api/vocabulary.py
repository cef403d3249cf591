"""Names, query parameters and examples for the OpenAPI documents. The types of fields are in their classes."""

from typing import Any

from core.config.keys import KEYS, Shape
from core.pairing_failures.causes import CauseTag
from core.pairing_failures.rules import OperatorAction
from core.payments.gateway_calls import ProcessingResult

MAX_SEQ = 2**31 - 1

# Class -> its name in the documents, if that is not the class's name without "View".
NAMES = {
    "PaymentView": "PaymentRequest",
    "TierView": "Tier",
    "MitraRow": "MitraForOperators",
    "Asked": "CodeRequest",
    "ConfigRow": "ConfigurationRow",
    "WebhookCall": "WebhookLog",
    "Audit": "LedgerAudit",
    "OperatorRow": "OperatorForOperators",
    "RoleRow": "Role",
    "TierRow": "TierForOperators",
    "PromotionRow": "FirstSessionPromotion",
    "Entry": "TimelineEntry",
    "Failure": "PaymentFailure",
    "Discount": "FirstSessionDiscount",
    "HistoryRow": "ChatHistoryRow",
    "SearchView": "SessionSearch",
}

UUID = "01933f2e-8a4c-7d3b-9f10-5a6b7c8d9e0f"
TIME = "2026-11-21T06:00:00Z"
# Query parameter -> its schema, where the type does not say enough.
QUERY: dict[str, dict[str, Any]] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": 200, "default": 50},
    "cursor": {"type": "string", "description": "`next_cursor` of the previous page."},
    "from": {"type": "string", "format": "date-time", "description": "Inclusive, with a time zone."},
    "to": {"type": "string", "format": "date-time", "description": "Exclusive, with a time zone."},
    "after": {"type": "integer", "minimum": 0, "maximum": MAX_SEQ, "description": "Only messages after this `seq`."},
    "before": {
        "type": "integer",
        "minimum": 0,
        "maximum": MAX_SEQ,
        "description": "The last messages before this `seq`.",
    },
    "cause_tag": {"type": "string", "enum": list(CauseTag)},
    "operator_action": {
        "type": "string",
        "enum": ["none", *OperatorAction],
        "description": "`none`: open failures.",
    },
    "processing_result": {"type": "string", "examples": list(ProcessingResult)},
    "q": {"type": "string", "description": "Part of a name, number, address or id."},
    "operator_id": {"type": "string", "format": "uuid"},
    "object_id": {
        "type": "string",
        "description": "An id, or the name of a setting. Entries whose lists contain the object are found too.",
    },
    "bodies": {"type": "boolean", "default": True, "description": "Whether to return the bodies of the calls."},
    "superseded": {"type": "boolean", "default": False},
}
# Field -> its value in examples of bodies. Optional fields without one are left out of the example.
EXAMPLES: dict[str, Any] = {
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
    "reason": "The customer asked support to end the session.",
    "message": "Terima kasih, sampai jumpa.",
    "up_to": 4,
    "is_active": True,
    "require_ping": True,
    "stale_after_seconds": 45,
    "operator_action": "refunded",
    "topics": ["pekerjaan"],
    "MessageBody.type": "text",
    "ConfigValue.value": 45,
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


def known(table: dict[str, Any], owner: str, name: str) -> Any:
    """Return a field's entry in a table, by "Class.field" or else by its name.

    Raises KeyError without one.
    """
    return table[f"{owner}.{name}"] if f"{owner}.{name}" in table else table[name]
