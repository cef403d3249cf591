"""The header `Idempotency-Key` (docs/protocol.md#idempotency)."""

from typing import Any

import attrs
from litestar import Request

from api.auth import bearer
from core.base import field_messages
from core.base.actor import Actor, UserType
from core.base.errors import Unauthenticated, ValidationFailed
from core.idempotency.rules import MAX_KEY, SIGN_IN_REPEAT, KeyedRequest, keyed_request
from core.runtime.container import Runtime

# Metadata of a field that was added to the body of a released route. At its default it does not count for the key:
# during a rolling deployment, a request and its retry may reach processes of different releases.
ADDED = {"added": True}


def key_of(request: Request[Any, Any, Any], actor: Actor, operation: str, data: Any) -> KeyedRequest | None:
    """Return the request's idempotency key with the operation and body; None without the header.

    Raises ValidationFailed if the key is invalid.
    """
    return _keyed(request, actor.user_id, operation, data)


def _keyed(request: Request[Any, Any, Any], user_id: str, operation: str, data: Any) -> KeyedRequest | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not 1 <= len(key) <= MAX_KEY:
        raise ValidationFailed.of("Idempotency-Key", field_messages.length(1, MAX_KEY))
    return keyed_request(user_id=user_id, key=key, operation=operation, body=body_of(data))


def key_of_sign_in(request: Request[Any, Any, Any], operation: str, data: Any) -> KeyedRequest | None:
    """Return the idempotency key of a sign-in with a Bearer token; None without either, or if the token is invalid.

    The token may be one that the first request has ended (docs/protocol.md#moving-from-anonymous-to-known), and may
    have expired since. Raises ValidationFailed if the key is invalid.
    """
    runtime: Runtime = request.app.state.runtime
    try:
        claims = runtime.tokens.check(bearer(request.headers), audience="public", now=runtime.now() - SIGN_IN_REPEAT)
    except Unauthenticated:
        return None
    return None if claims.user_type is not UserType.CUSTOMER else _keyed(request, claims.user_id, operation, data)


def body_of(data: Any) -> dict[str, Any]:
    """Return the fields of a body that count for its key."""
    return attrs.asdict(data, filter=lambda field, value: not field.metadata.get("added") or value != field.default)
