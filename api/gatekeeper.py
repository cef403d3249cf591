"""What every request passes before the framework sees it: request id, limits, server time, figures (contract 2)."""

import asyncio
import datetime as dt
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import structlog
from litestar.config.cors import CORSConfig
from prometheus_client import Counter

from api import errors
from api.answers import UNLIMITED, WEBHOOK
from api.auth import bearer
from core.base import ids, logs, metrics
from core.base.addresses import who_has
from core.base.clock import as_text, monotonic
from core.base.errors import DomainError, Forbidden, Kind, NotFound, Unauthenticated
from core.bus.rate_limit import Limit
from core.flows import webhook_receive
from core.runtime import Runtime

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY = 65_536
# How much is read of the body of a webhook call with a valid token; MAX_BODY and one byte are kept. Without a valid token
# no more is read than is kept.
MAX_READ = 8 * 1024 * 1024
BODY_S = 20.0  # real: how long a body may take to arrive
AVAILABILITY = "/api/client/mitras/availability"
SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
SECURITY = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
}


log = logs.get("api")


class TooLarge(DomainError):
    """The body passes the limit."""

    kind = Kind.TOO_LARGE
    code, message = errors.FRAMEWORK[413]


class Gatekeeper:
    """Wraps one listener's application."""

    def __init__(self, app: App, runtime: Runtime, *, listener: str, cors: CORSConfig | None) -> None:
        self._app = app
        self._runtime = runtime
        self._listener = listener
        self._cors = cors
        settings = runtime.settings
        self._general = Limit(
            name="general", per_minute=settings.rate_limit_per_minute, burst=settings.rate_limit_burst
        )
        self._counters: dict[tuple[str, str, int], Counter] = {}  # looking one up by its labels takes longer
        self._seconds = metrics.REQUEST_SECONDS.labels(listener)
        self._availability = Limit(name="availability", per_minute=60, burst=60)  # contract 2: 60 a minute

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; other kinds of connection pass through (websockets are refused)."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1003})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = monotonic()
        # Of a header that comes twice the first counts, as for the framework: two views of one request would let a
        # client be one user to the limits and another one to the route.
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}
        request_id = _request_id(headers)
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(process="api", request_id=request_id)
        status = 0

        async def answer(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._finish(message, headers, request_id)
            await send(message)

        try:
            await self._admit(scope, headers)
            body = await _read_in_time(scope, receive, headers, most=self._most(scope, headers))
            if body is None:
                return
            if b"\0" in scope.get("query_string", b"") or "\0" in scope["path"] or b"%00" in scope["query_string"]:
                raise NotFound
        except DomainError as error:
            await _refuse(answer, error)
        else:
            state["body_size"] = len(body)
            await self._app(scope, _replay(body, receive), answer)
        self._count(scope, status, monotonic() - started)

    async def _admit(self, scope: Scope, headers: dict[str, str]) -> None:
        """Check the origin and the method of a preflight, and the rate. Raises Forbidden, RateLimited."""
        if scope["method"] == "OPTIONS" and "origin" in headers and self._cors is not None:
            if not self._cors.is_origin_allowed(headers["origin"]):
                raise Forbidden("This origin is not allowed.")
            if headers.get("access-control-request-method", "GET") not in self._cors.allow_methods:
                raise Forbidden("This method is not allowed.")
            return
        path = scope["path"].rstrip("/") or "/"
        if self._listener != "public" or path in UNLIMITED:
            return
        limit = self._availability if path == AVAILABILITY else self._general
        now = self._runtime.now()
        await self._runtime.rate_limit.take(limit, self._who(scope, headers), now_us=int(now.timestamp() * 1_000_000))

    def _most(self, scope: Scope, headers: dict[str, str]) -> int:
        """Return how many bytes of a body are read."""
        genuine = scope["path"].rstrip("/") == WEBHOOK and webhook_receive.is_genuine(self._runtime, headers)
        return MAX_READ if genuine else MAX_BODY

    def _who(self, scope: Scope, headers: dict[str, str]) -> str:
        """The user, or the address of whoever has no valid token."""
        try:
            claims = self._runtime.tokens.check(bearer(headers), audience="public", now=self._runtime.now())
            return f"user:{claims.user_id}"
        except Unauthenticated:
            host = scope["client"][0] if scope.get("client") else ""
            return f"address:{who_has(host)}"

    def _finish(self, message: MutableMapping[str, Any], headers: dict[str, str], request_id: str) -> None:
        """Add the headers that every answer has."""
        given = {name.lower() for name, _ in message.get("headers", [])}
        more = [(name, value) for name, value in own_headers(request_id, self._runtime.now()) if name not in given]
        origin = headers.get("origin")
        if origin is not None and self._cors is not None and b"access-control-allow-origin" not in given:
            # A refusal of ours: the framework's own answers carry these already.
            if self._cors.is_origin_allowed(origin):
                more.append((b"access-control-allow-origin", origin.encode("latin-1")))
                more.append((b"access-control-expose-headers", ", ".join(self._cors.expose_headers).encode()))
            more.append((b"vary", b"Origin"))
        message["headers"] = [*message.get("headers", []), *more]

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        key = (scope["method"], scope.get("path_template") or "unknown", status)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = metrics.REQUESTS.labels(self._listener, key[0], key[1], str(status))
        counter.inc()
        self._seconds.observe(seconds)


def own_headers(request_id: str, now: dt.datetime) -> list[tuple[bytes, bytes]]:
    """Return the headers that every answer has."""
    return [(b"x-request-id", request_id.encode()), (b"x-server-time", as_text(now).encode()), *SECURITY.items()]


def _request_id(headers: dict[str, str]) -> str:
    given = headers.get("x-request-id", "")
    return given if SANE_ID.fullmatch(given) else ids.new_id()


class Malformed(DomainError):
    """The request can't be read."""

    kind = Kind.MALFORMED
    code, message = errors.FRAMEWORK[400]


async def _read_in_time(scope: Scope, receive: Receive, headers: dict[str, str], *, most: int) -> bytes | None:
    """Read the body, up to `most` bytes of a webhook call; None when the client has gone. Raises TooLarge, Malformed when it does not arrive."""
    announced = headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced) > MAX_BODY and not _is_webhook(scope):
        raise TooLarge
    if not announced and "transfer-encoding" not in headers:
        return await _read(scope, receive, most)  # there is nothing to wait for
    try:
        async with asyncio.timeout(BODY_S):
            return await _read(scope, receive, most)
    except TimeoutError as error:
        raise Malformed("The body did not arrive.") from error


def _is_webhook(scope: Scope) -> bool:
    return scope["path"].rstrip("/") == WEBHOOK


async def _read(scope: Scope, receive: Receive, most: int) -> bytes | None:
    """Read the body, up to `most` bytes of a webhook call; None when the client has gone. Raises TooLarge."""
    webhook = _is_webhook(scope)
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
        if size - len(part) <= MAX_BODY:
            parts.append(part)
        if size > most:
            break  # the rest is not read; the call is recorded, cut, and refused
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


async def _refuse(send: Send, error: DomainError) -> None:
    metrics.REFUSALS.labels(error.code).inc()
    log.info("refused", code=error.code)
    status, content = errors.raw(error)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    if error.retry_after_seconds is not None:
        headers.append((b"retry-after", str(error.retry_after_seconds).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
