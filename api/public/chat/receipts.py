"""Routes of receipts, and of the public keys by which anyone can verify them."""

from typing import Any

from litestar import Request, Response, get

from api.auth import anyone, parties
from api.parameters import path_id
from core.base.actor import Actor
from core.base.errors import NotFound
from core.runtime.container import Runtime
from core.sessions.receipts import show as show_receipts
from core.sessions.receipts import signing
from core.sessions.receipts.rules import ReceiptNotReady, SessionNotCompleted, SignedReceipt
from core.sessions.receipts.signing import JwkSet

# Keys change once a year; a new one is published before it signs (docs/secrets.md).
KEYS_CACHED = "public, max-age=3600"
JOSE = "application/jose"


@get(
    "/api/shared/chat/sessions/{session_id:str}/receipt",
    produces={JOSE: str},
    **parties(SessionNotCompleted, ReceiptNotReady),
)
async def receipt(
    session_id: str, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor
) -> Response[SignedReceipt]:
    """Return the signed receipt of a completed session; with `Accept: application/jose` as a JWS in the compact form.

    Sessions that were completed before the service made receipts have none: 404.
    """
    signed = await show_receipts.of_party(runtime, actor, session_id=path_id(session_id))
    headers = {"Vary": "Accept"}
    if request.accept.best_match(["application/json", JOSE]) != JOSE:
        return Response(signed, headers=headers)
    compact = signing.keys_of(runtime.settings.receipt_signing_keys).compact(signed)
    if compact is None:
        raise NotFound
    return Response[Any](compact, media_type=JOSE, headers=headers)


@get("/.well-known/sesi-receipts.json", **anyone())
async def keys(runtime: Runtime) -> Response[JwkSet]:
    """Return the public keys of receipts as a JWK set (RFC 7517), also those that no longer sign."""
    headers = {"Cache-Control": KEYS_CACHED, "Access-Control-Allow-Origin": "*"}
    return Response(signing.keys_of(runtime.settings.receipt_signing_keys).jwk_set(), headers=headers)


ROUTES = [receipt, keys]
