"""The header `Idempotency-Key` (docs/protocol.md#idempotency)."""

from typing import Any

import attrs
from litestar import Request

from core.base import field_messages
from core.base.actor import Actor
from core.base.errors import ValidationFailed
from core.idempotency.rules import MAX_KEY, KeyedRequest, keyed_request

# Metadata of a field that was added to the body of a released route. At its default it does not count for the key:
# during a rolling deployment, a request and its retry may reach processes of different releases.
ADDED = {"added": True}


def key_of(request: Request[Any, Any, Any], actor: Actor, operation: str, data: Any) -> KeyedRequest | None:
    """Return the request's idempotency key with the operation and body; None without the header.

    Raises ValidationFailed if the key is invalid.
    """
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not 1 <= len(key) <= MAX_KEY:
        raise ValidationFailed.of("Idempotency-Key", field_messages.length(1, MAX_KEY))
    return keyed_request(user_id=actor.user_id, key=key, operation=operation, body=body_of(data))


def body_of(data: Any) -> dict[str, Any]:
    """Return the fields of a body that count for its key."""
    return attrs.asdict(data, filter=lambda field, value: not field.metadata.get("added") or value != field.default)
