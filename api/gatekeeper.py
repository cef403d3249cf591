"""The ASGI layer around each application: request ids, rate limits, body limits, common headers, metrics and the
request log.

Headers and limits are described in docs/protocol.md#http.
"""

import asyncio
import contextlib
import datetime as dt
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec
import structlog
from litestar import Litestar
from litestar.config.cors import CORSConfig
from prometheus_client import Counter

from api import deprecation, errors
from api.admission import Admission, Slot
from api.auth import bearer
from api.refusals import BODY_TOO_LARGE, INTERNAL_ERROR, REQUEST_TIMEOUT, SIGN_IN, UNLIMITED, WEBHOOK
from core.base import http_texts, ids, logs, metrics
from core.base.addresses import TrustedProxies
from core.base.clock import as_text, monotonic
from core.base.errors import DomainError, Forbidden, Kind, NotFound, Unauthenticated, Unavailable
from core.bus.buckets import Charge, Charges, Limit, charges_of_address
from core.flows import webhook_receive
from core.logins import refresh
from core.logins.access import Claims
from core.logins.refresh import RefreshInvalid
from core.runtime import Runtime

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Refused = tuple[MutableMapping[str, Any], bytes]  # (the message that starts an answer, its body)
App = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logs.get("api")

MAX_BODY = 65_536
# Bytes read of a webhook body with a valid token, so that the call can be answered; only the first MAX_BODY + 1 are
# kept. Without a valid token reading stops after MAX_BODY.
MAX_READ = 8 * 1024 * 1024
BODY_S = 15.0  # real time in which a body must arrive
AVAILABILITY = "/api/client/mitras/availability"
REFRESH = "/api/shared/auth/refresh"
# Routes that apps poll. Without a valid token they have a separate limit per address, so that other requests from the
# same address can't use it up and take mitras offline.
POLLS = frozenset({AVAILABILITY, "/api/mitra/status/heartbeat"})
WELL_KNOWN = "/.well-known/"
# Per address and minute. This is enough for 180,000 phones behind one address that refresh every 15 minutes.
REFRESHES, STRAY_POLLS = 12_000, 12_000
REFRESH_BURST = 6_000  # as many as an address may have connections, because each may be a phone after an outage
CLIENT_GONE = 499  # logged if the client has disconnected before the answer, as nginx does
SECURITY = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
}


class TooLarge(DomainError):
    """The body is larger than the limit."""

    kind = Kind.TOO_LARGE
    code, message = BODY_TOO_LARGE.code, BODY_TOO_LARGE.message


class Presented(msgspec.Struct):
    """The part of a refresh's body that decides which token bucket the request is charged to."""

    refresh_token: str


class Gatekeeper:
    """The ASGI wrapper of one listener's application."""

    def __init__(self, app: Litestar, runtime: Runtime, *, listener: str, cors: CORSConfig | None) -> None:
        self._app: App = app  # type: ignore[assignment]
        self._runtime = runtime
        self._listener = listener
        self._routes = frozenset(route.path for route in app.routes if "{" not in route.path)
        self._cors = cors
        self._admission = Admission(overloaded=runtime.note_overload)
        settings = runtime.settings
        self._proxies = TrustedProxies(settings.trusted_proxies)
        per_minute, burst = settings.rate_limit_per_minute, settings.rate_limit_burst
        self._general = Limit(name="general", per_minute=per_minute, burst=burst)
        self._availability = Limit(name="availability", per_minute=60, burst=60)
        self._address = Limit(
            name="address",
            per_minute=settings.rate_limit_address_per_minute,
            burst=settings.rate_limit_address_burst,
        )
        self._refresh = Limit(name="refresh", per_minute=per_minute, burst=burst)
        self._refresh_address = Limit(name="refresh_address", per_minute=REFRESHES, burst=REFRESH_BURST)
        self._stray_polls = Limit(name="stray_polls", per_minute=STRAY_POLLS, burst=STRAY_POLLS)
        operators = settings.operator_rate_limit_per_minute
        self._operator = Limit(name="operator", per_minute=operators, burst=max(1, operators // 2))
        sign_ins = settings.operator_sign_in_per_minute
        self._sign_in = Limit(name="operator_sign_in", per_minute=sign_ins, burst=sign_ins)
        self._counters: dict[tuple[str, str, int], Counter] = {}  # a cache: the lookup by labels takes longer
        self._seconds = metrics.REQUEST_SECONDS.labels(listener)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request. Other kinds of ASGI scopes are passed on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = monotonic()
        headers = _headers(scope)
        request_id = ids.request_id(headers.get("x-request-id", ""))
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        claims = self._claims(headers)
        caller = {} if claims is None else {
            "user_type": claims.user_type.value, "user_id": claims.user_id, "auth_session_id": claims.auth_session_id,
        }  # fmt: skip
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(process="api", request_id=request_id, **caller)
        status = sent = 0

        async def answer(message: MutableMapping[str, Any]) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                self._finish(message, headers, scope)
            else:
                sent += len(message.get("body", b""))
            await send(message)

        try:
            await self._handle(scope, receive, answer, headers, claims)
        except Exception as error:
            if status:
                raise  # part of the answer has been sent already
            await _fail(scope, answer, error)
        finally:
            seconds = monotonic() - started
            self._count(scope, status, seconds)
            self._log(scope, caller, status=status or CLIENT_GONE, ms=round(seconds * 1000, 1), bytes_out=sent)

    def is_refresh(self, scope: Scope) -> bool:
        """Return whether a request presents a refresh token."""
        return self._listener == "public" and scope["method"] == "POST" and scope["path"].rstrip("/") == REFRESH

    def admit_refresh(self, scope: Scope) -> Refused | None:
        """Admit a refresh whose body is complete. Return None, or the whole answer if it is refused.

        The connection calls this before it starts a task. After an outage thousands of refreshes arrive at once and
        most of them must retry: a refusal here costs a fraction of a task with its rate limits, and nothing is charged
        to the client's address.
        """
        started = monotonic()
        forwarded = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
        host = self._proxies.client_of(_host(scope), forwarded)
        state = scope["state"]
        try:
            state["slot"] = self._admission.refresh(host)
        except Unavailable as error:
            scope["client"] = (host, 0)
            headers = _headers(scope)
            state["request_id"] = ids.request_id(headers.get("x-request-id", ""))
            start, content = _refusal(scope, error)
            self._finish(start, headers, scope)
            seconds = monotonic() - started
            self._count(scope, start["status"], seconds)
            self._log(scope, {}, status=start["status"], ms=round(seconds * 1000, 1), bytes_out=len(content))
            return start, content
        return None

    async def _handle(
        self, scope: Scope, receive: Receive, answer: Send, headers: dict[str, str], claims: Claims | None
    ) -> None:
        """Check the limits, read the body and call the application, or refuse the request."""
        path = scope["path"].rstrip("/") or "/"

        async def answer_from_work(message: MutableMapping[str, Any]) -> None:
            # The work is done, so a client that does not read its answer must not count against the limit.
            await held.aclose()
            await answer(message)

        async with contextlib.AsyncExitStack() as held:
            slot: Slot | None = scope["state"].get("slot")
            if slot is not None:
                held.callback(slot.leave)
            by_token = self.is_refresh(scope)
            try:
                self._check_preflight(scope, headers)
                if not by_token:
                    await self._charge(self._charges(scope, path, headers, claims))
                body = await _read_in_time(scope, receive, headers, most=self._most(scope, headers))
                if body is None:
                    return
                scope["state"]["body_size"] = len(body)
                # Only after the body, so that slow senders don't count against the limit.
                if path not in UNLIMITED:
                    held.enter_context(self._admission.request())
                if by_token:
                    await self._enter_refresh(scope, body, held)
                if b"\0" in scope.get("query_string", b"") or "\0" in scope["path"] or b"%00" in scope["query_string"]:
                    raise NotFound
            except DomainError as error:
                await _refuse(scope, answer, error)
            else:
                await self._app(scope, _replay(body, receive), answer_from_work)

    async def _enter_refresh(self, scope: Scope, body: bytes, held: contextlib.AsyncExitStack) -> None:
        """Admit a refresh, charge its rate limits, and wait for its turn at the database.

        It is charged after the admission, so that a client that must retry is charged once. A body without one of our
        tokens is refused without the database: it needs no admission, and is charged like any request without a token.
        """
        slot: Slot | None = scope["state"].get("slot")
        try:
            token = msgspec.json.decode(body, type=Presented).refresh_token
            auth_session_id = refresh.auth_session_of(token, keys=self._runtime.keys.refresh)
        except (msgspec.DecodeError, RecursionError, UnicodeError, RefreshInvalid):
            if slot is not None:
                slot.leave()
            await self._charge(charges_of_address(self._address, _host(scope)))
            return
        if slot is None:
            held.callback(self._admission.refresh(_host(scope)).leave)
        by_address = charges_of_address(self._refresh_address, _host(scope))
        await self._charge((Charge(self._refresh, auth_session_id), *by_address))
        await held.enter_async_context(self._admission.refreshing)

    def _check_preflight(self, scope: Scope, headers: dict[str, str]) -> None:
        """Check the origin and the method of a browser's CORS preflight.

        Raises Forbidden if one is not allowed.
        """
        if self._cors is None or not _is_preflight(scope, headers):
            return
        if not self._cors.is_origin_allowed(headers["origin"]):
            raise Forbidden(http_texts.ORIGIN_FORBIDDEN)
        if headers.get("access-control-request-method", "GET") not in self._cors.allow_methods:
            raise Forbidden(http_texts.METHOD_FORBIDDEN)

    def _most(self, scope: Scope, headers: dict[str, str]) -> int:
        """Return how many bytes of the body to read."""
        genuine = scope["path"].rstrip("/") == WEBHOOK and webhook_receive.is_genuine(self._runtime, headers)
        return MAX_READ if genuine else MAX_BODY

    def _claims(self, headers: dict[str, str]) -> Claims | None:
        """Return the claims of the request's token; None without a valid one for this listener."""
        try:
            return self._runtime.tokens.check(bearer(headers), audience=self._listener, now=self._runtime.now())
        except Unauthenticated:
            return None

    async def _charge(self, charges: Charges) -> None:
        """Charge the request to its token buckets.

        Raises RateLimited if one is empty.
        """
        if charges:
            await self._runtime.charge(charges)

    def _charges(self, scope: Scope, path: str, headers: dict[str, str], claims: Claims | None) -> Charges:
        """Return the token buckets that a request is charged to."""
        if self._cors is not None and _is_preflight(scope, headers):
            return ()
        if self._listener == "internal":
            if path in SIGN_IN:
                return charges_of_address(self._sign_in, _host(scope))
            return () if claims is None else (Charge(self._operator, claims.user_id),)
        if path in UNLIMITED or path.startswith(WELL_KNOWN):
            return ()
        if claims is None:
            return charges_of_address(self._stray_polls if path in POLLS else self._address, _host(scope))
        if path == AVAILABILITY:
            return (Charge(self._availability, claims.user_id),)
        own = (Charge(self._general, claims.user_id),)
        if path in POLLS or not claims.newcomer or claims.user_id in self._runtime.caches.paid:
            return own
        return own + charges_of_address(self._address, _host(scope))

    def _finish(self, message: MutableMapping[str, Any], headers: dict[str, str], scope: Scope) -> None:
        """Add the headers of every answer, the language of an error message, and the CORS headers of our refusals."""
        state = scope["state"]
        headers_so_far: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
        given = {name.lower() for name, _ in headers_so_far}
        more = [
            (name, value) for name, value in own_headers(state["request_id"], self._runtime.now()) if name not in given
        ]
        more += deprecation.headers_of(scope["path"])
        vary = []
        if (language := state.get("language")) is not None:
            more.append((b"content-language", language.value.encode()))
            vary.append(b"Accept-Language")
        origin = headers.get("origin")
        if origin is not None and self._cors is not None and b"access-control-allow-origin" not in given:
            # The framework's own answers have these headers already; only our refusals lack them.
            if self._cors.is_origin_allowed(origin):
                more.append((b"access-control-allow-origin", origin.encode("latin-1")))
                more.append((b"access-control-expose-headers", ", ".join(self._cors.expose_headers).encode()))
            vary.append(b"Origin")
        if vary:
            known = [value for name, value in headers_so_far if name.lower() == b"vary"]
            headers_so_far = [header for header in headers_so_far if header[0].lower() != b"vary"]
            more.append((b"vary", b", ".join([*known, *vary])))
        message["headers"] = [*headers_so_far, *more]

    def _route(self, scope: Scope) -> str:
        """Return the route's template, such as `/api/x/{id}`.

        Before routing it is known only for paths without parameters.
        """
        template = scope.get("path_template")
        if template is None:
            path = scope["path"].rstrip("/") or "/"
            template = path if path in self._routes else "unknown"
        return template

    def _log(self, scope: Scope, caller: dict[str, str], **figures: float) -> None:
        """Write the request's log line: without query and body, and with the route's template instead of the path."""
        state = scope["state"]
        line = {
            "event": "request",
            "listener": self._listener,
            "method": scope["method"],
            "route": self._route(scope),
            "address": _host(scope),
            "request_id": state["request_id"],
            "bytes_in": state.get("body_size", 0),
            **figures,
            **caller,
        }
        if "code" in state:
            line["code"] = state["code"]
        logs.write_line(line, at=self._runtime.clock.real_now())

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        key = (scope["method"], self._route(scope), status)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = metrics.REQUESTS.labels(self._listener, key[0], key[1], str(status))
        counter.inc()
        self._seconds.observe(seconds)


def own_headers(request_id: str, now: dt.datetime) -> list[tuple[bytes, bytes]]:
    """Return the headers of every answer."""
    return [(b"x-request-id", request_id.encode()), (b"x-server-time", as_text(now).encode()), *SECURITY.items()]


def _headers(scope: Scope) -> dict[str, str]:
    """Return a request's headers as a dict.

    If a header occurs twice the first counts, as in the framework. Otherwise a client could be one user for the rate
    limits and another one for the route.
    """
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}


def _is_preflight(scope: Scope, headers: dict[str, str]) -> bool:
    return scope["method"] == "OPTIONS" and "origin" in headers


def _host(scope: Scope) -> str:
    return scope["client"][0] if scope.get("client") else ""


class RequestTimeout(DomainError):
    """The body has not arrived in time."""

    kind = Kind.TOO_LATE
    code, message = REQUEST_TIMEOUT.code, REQUEST_TIMEOUT.message


async def _read_in_time(scope: Scope, receive: Receive, headers: dict[str, str], *, most: int) -> bytes | None:
    """Read the body within BODY_S; of a webhook call, about `most` bytes. None if the client has disconnected.

    Raises TooLarge, or RequestTimeout if the body has not arrived in time.
    """
    announced = headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced) > MAX_BODY and not _is_webhook(scope):
        raise TooLarge
    if not announced and "transfer-encoding" not in headers:
        return await _read(scope, receive, most)  # without a body this does not wait
    try:
        async with asyncio.timeout(BODY_S):
            return await _read(scope, receive, most)
    except TimeoutError as error:
        metrics.LIMITED.labels("http_body_seconds").inc()
        raise RequestTimeout from error


def _is_webhook(scope: Scope) -> bool:
    return scope["path"].rstrip("/") == WEBHOOK


async def _read(scope: Scope, receive: Receive, most: int) -> bytes | None:
    """Read the body; of a webhook call, about `most` bytes. None if the client has disconnected.

    Raises TooLarge.
    """
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
            break  # the rest is not read: the call is stored, truncated, and refused
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


async def _fail(scope: Scope, send: Send, error: Exception) -> None:
    """Log an error that the application did not handle, with its traceback, and answer it."""
    request_id = scope["state"]["request_id"]
    log.error("unexpected", exc_info=error, path=scope["path"], request_id=request_id)
    language = errors.note(scope, INTERNAL_ERROR.code)
    content = msgspec.json.encode(errors.body(INTERNAL_ERROR, language, details={"request_id": request_id}))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": INTERNAL_ERROR.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


async def _refuse(scope: Scope, send: Send, error: DomainError) -> None:
    start, content = _refusal(scope, error)
    await send(start)
    await send({"type": "http.response.body", "body": content})


def _refusal(scope: Scope, error: DomainError) -> Refused:
    status, content = errors.raw(error, errors.note(scope, error.code))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    if error.retry_after_seconds is not None:
        headers.append((b"retry-after", str(error.retry_after_seconds).encode()))
    if error.kind is Kind.TOO_LATE:  # otherwise the rest of the body would be read as the next request
        headers.append((b"connection", b"close"))
    return {"type": "http.response.start", "status": status, "headers": headers}, content
