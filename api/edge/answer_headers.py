"""The headers of every answer (docs/protocol.md#http)."""

import datetime as dt
from collections.abc import MutableMapping
from typing import Any

from litestar.config.cors import CORSConfig

from api import deprecation
from api.edge.asgi import Scope
from core.base.clock import as_text

SECURITY = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
}


def own_headers(request_id: str, now: dt.datetime) -> list[tuple[bytes, bytes]]:
    """Return the headers of every answer."""
    return [(b"x-request-id", request_id.encode()), (b"x-server-time", as_text(now).encode()), *SECURITY.items()]


def finish(
    message: MutableMapping[str, Any],
    headers: dict[str, str],
    scope: Scope,
    *,
    cors: CORSConfig | None,
    now: dt.datetime,
) -> None:
    """Add the headers of every answer, the language of an error message, and the CORS headers of our refusals."""
    state = scope["state"]
    headers_so_far: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
    given = {name.lower() for name, _ in headers_so_far}
    more = [(name, value) for name, value in own_headers(state["request_id"], now) if name not in given]
    more += deprecation.headers_of(scope["path"])
    vary = []
    if (language := state.get("language")) is not None:
        more.append((b"content-language", language.value.encode()))
        vary.append(b"Accept-Language")
    origin = headers.get("origin")
    if origin is not None and cors is not None and b"access-control-allow-origin" not in given:
        # The framework's own answers have these headers already; only our refusals lack them.
        if cors.is_origin_allowed(origin):
            more.append((b"access-control-allow-origin", origin.encode("latin-1")))
            more.append((b"access-control-expose-headers", ", ".join(cors.expose_headers).encode()))
        vary.append(b"Origin")
    if vary:
        known = [value for name, value in headers_so_far if name.lower() == b"vary"]
        headers_so_far = [header for header in headers_so_far if header[0].lower() != b"vary"]
        more.append((b"vary", b", ".join([*known, *vary])))
    message["headers"] = [*headers_so_far, *more]
