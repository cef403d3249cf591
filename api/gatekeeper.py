"""What every request passes before the framework sees it: request id, body limit, server time, figures (contract 2)."""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import structlog

from api import errors
from core.base import ids, metrics
from core.base.clock import as_text, monotonic
from core.runtime import Runtime

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY = 65_536
MAX_READ = 8 * 1024 * 1024  # a webhook's body is read so far, and kept up to MAX_BODY and one byte
WEBHOOK = "/api/shared/payment/webhooks/gateway"
SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
SECURITY = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]


class TooLarge(Exception):
    """The body passes the limit."""


class Gatekeeper:
    """Wraps one listener's application."""

    def __init__(self, app: App, runtime: Runtime, *, listener: str) -> None:
        self._app = app
        self._runtime = runtime
        self._listener = listener

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; other kinds of connection pass through (websockets are refused)."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1003})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = monotonic()
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(process="api", request_id=request_id)
        status = 0

        async def answer(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                server_time = as_text(self._runtime.now())
                message["headers"] = [
                    *message.get("headers", []),
                    (b"x-request-id", request_id.encode()),
                    (b"x-server-time", server_time.encode()),
                    *SECURITY,
                ]
            await send(message)

        try:
            body = await _read(scope, receive)
        except TooLarge:
            await _plain(answer, *errors.raw(413, "BODY_TOO_LARGE", "The body is over 64 KiB."))
        else:
            if body is None:
                return
            if b"\0" in scope.get("query_string", b"") or "\0" in scope["path"] or b"%00" in scope["query_string"]:
                await _plain(answer, *errors.raw(404, "NOT_FOUND", "There is no such thing here."))
            else:
                await self._app(scope, _replay(body, receive), answer)
        self._count(scope, status, monotonic() - started)

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        template = scope.get("path_template") or "unknown"
        metrics.REQUESTS.labels(self._listener, scope["method"], template, str(status)).inc()
        metrics.REQUEST_SECONDS.labels(self._listener).observe(seconds)


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            text = value.decode("latin-1")
            if SANE_ID.fullmatch(text):
                return text
    return ids.new_id()


async def _read(scope: Scope, receive: Receive) -> bytes | None:
    """Read the whole body; None when the client has gone. Raises TooLarge."""
    webhook = scope["path"].rstrip("/") == WEBHOOK
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY and not webhook:
            raise TooLarge
        if size > MAX_READ:
            break  # nobody reads on; the call is recorded, cut, and refused
        if size - len(part) <= MAX_BODY:
            parts.append(part)
        if not message.get("more_body"):
            break
    body = b"".join(parts)
    return body[: MAX_BODY + 1] if webhook else body


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def again() -> MutableMapping[str, Any]:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again


async def _plain(send: Send, status: int, content: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
