"""The ASGI layer around each application: it admits a request or refuses it, and completes the answer.

Headers and limits are described in docs/protocol.md#http.
"""

from collections.abc import MutableMapping
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import structlog
from litestar import Litestar
from litestar.config.cors import CORSConfig

from api.auth import bearer
from api.edge.admission import RequestAdmission, Slot
from api.edge.answer_headers import finish
from api.edge.asgi import App, Receive, Scope, Send, forwarded_of, headers_of, host_of, is_alias, is_preflight, path_of
from api.edge.body_limits import MAX_BODY, MAX_READ, read_in_time, replay
from api.edge.list_files import ListFiles
from api.edge.plain_answers import Refused, fail, refusal_of_request, refuse
from api.edge.plain_reads import PlainReads
from api.edge.rate_limits import REFRESH, RateLimits
from api.edge.request_records import RequestRecords
from api.refusals import UNLIMITED
from core.base import http_texts, ids
from core.base.addresses import TrustedProxies
from core.base.clock import monotonic
from core.base.errors import DomainError, Forbidden, NotFound, Unauthenticated
from core.bus.buckets import Charges
from core.payments.webhooks import receive as webhook_receive
from core.runtime.container import Runtime
from core.security import refresh
from core.security.access import AccessClaims
from core.security.exposure import PROBES, ExposureCheck
from core.security.refresh import RefreshInvalid
from core.telemetry.spans import Span

CLIENT_GONE = 499  # logged if the client has disconnected before the answer, as nginx does


class Presented(msgspec.Struct):
    """The part of a refresh's body that decides which token bucket the request is charged to."""

    refresh_token: str


class Gatekeeper:
    """The ASGI wrapper of one listener's application."""

    def __init__(self, app: Litestar, runtime: Runtime, *, listener: str, cors: CORSConfig | None) -> None:
        self._app: App = app  # type: ignore[assignment]
        reads = PlainReads(app)
        self._reads = ListFiles(app, reads, runtime) if listener == "internal" else reads
        self._runtime = runtime
        self._listener = listener
        self._cors = cors
        self._admission = RequestAdmission(overloaded=runtime.note_overload)
        self._proxies = TrustedProxies(runtime.settings.trusted_proxies)
        self._exposure = ExposureCheck(runtime.settings)
        self._limits = RateLimits(runtime, listener=listener, browsers=cors is not None)
        self._records = RequestRecords(app, runtime.clock, listener=listener)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request. Other kinds of ASGI scopes are passed on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD" and path_of(scope) in PROBES:
            scope = {**scope, "method": "GET"}  # uvicorn has the original, and sends no body
        with self._records.span(scope) as span:
            await self._answer(scope, receive, send, span)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, span: Span) -> None:
        """Handle one request in its span."""
        started = monotonic()
        headers = headers_of(scope)
        request_id = ids.request_id(headers.get("x-request-id", ""))
        state = scope.setdefault("state", {})
        state["request_id"], state["trace_id"], state["headers"] = request_id, span.trace_id, headers
        claims = self._claims(headers)
        caller = {} if claims is None else {
            "user_type": claims.user_type.value, "user_id": claims.user_id, "auth_session_id": claims.auth_session_id,
        }  # fmt: skip
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(process="api", request_id=request_id, **caller)
        if span.trace_id is not None:
            structlog.contextvars.bind_contextvars(trace_id=span.trace_id)
        status = sent = 0

        async def answer(message: MutableMapping[str, Any]) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                finish(message, headers, scope, cors=self._cors, now=self._runtime.now())
            else:
                sent += len(message.get("body", b""))
            await send(message)

        try:
            await self._handle(scope, receive, answer, headers, claims)
        except Exception as error:
            if status:
                raise  # part of the answer has been sent already
            await fail(scope, answer, error)
        finally:
            seconds = monotonic() - started
            self._records.count(scope, status, seconds)
            self._records.trace(span, scope, status or CLIENT_GONE)
            self._records.log(scope, caller, status=status or CLIENT_GONE, ms=round(seconds * 1000, 1), bytes_out=sent)

    def is_refresh(self, scope: Scope) -> bool:
        """Return whether a request presents a refresh token."""
        is_route = self._listener == "public" and scope["method"] == "POST" and path_of(scope) == REFRESH
        return is_route and not is_alias(scope)

    def admit_refresh(self, scope: Scope) -> Refused | None:
        """Admit a refresh whose body is complete. Return None, or the whole answer if it is refused.

        The connection calls this before it starts a task. After an outage thousands of refreshes arrive at once and
        most of them must retry: a refusal here costs a fraction of a task with its rate limits, and nothing is charged
        to the client's address.
        """
        started = monotonic()
        host = self._proxies.client_of(host_of(scope), forwarded_of(scope))
        headers = headers_of(scope)
        state = scope["state"]
        try:
            self._check_exposure(scope, headers)
            state["slot"] = self._admission.refresh(host)
        except DomainError as error:
            scope["client"] = (host, 0)
            state["request_id"] = ids.request_id(headers.get("x-request-id", ""))
            start, content = refusal_of_request(scope, error)
            finish(start, headers, scope, cors=self._cors, now=self._runtime.now())
            seconds = monotonic() - started
            self._records.count(scope, start["status"], seconds)
            self._records.log(scope, {}, status=start["status"], ms=round(seconds * 1000, 1), bytes_out=len(content))
            return start, content
        return None

    async def _handle(
        self, scope: Scope, receive: Receive, answer: Send, headers: dict[str, str], claims: AccessClaims | None
    ) -> None:
        """Admit the request and call the application, or refuse the request."""

        async def answer_from_work(message: MutableMapping[str, Any]) -> None:
            # The work is done, so a client that does not read its answer must not count against the limit.
            await held.aclose()
            await answer(message)

        async with AsyncExitStack() as held:
            slot: Slot | None = scope["state"].get("slot")
            if slot is not None:
                held.callback(slot.leave)
            try:
                body = await self._admit(scope, receive, headers, claims, held)
            except DomainError as error:
                await refuse(scope, answer, error)
            else:
                if body is not None:
                    await self._reads(scope, replay(body, receive), answer_from_work)

    async def _admit(
        self, scope: Scope, receive: Receive, headers: dict[str, str], claims: AccessClaims | None, held: AsyncExitStack
    ) -> bytes | None:
        """Check the limits of a request and return its body; None if the client has disconnected.

        `held` releases the request's places in the limits.
        """
        if is_alias(scope):  # before any limit is chosen by the path
            raise NotFound
        by_token = self.is_refresh(scope)
        self._check_exposure(scope, headers)
        self._check_preflight(scope, headers)
        if not by_token:
            await self._charge(self._limits.of_request(scope, headers, claims))
        body = await read_in_time(scope, receive, headers, most=lambda: self._most(headers))
        if body is None:
            return None
        scope["state"]["body_size"] = len(body)
        # Only after the body, so that slow senders don't count against the limit.
        if path_of(scope) not in UNLIMITED:
            held.enter_context(self._admission.request())
        if by_token:
            await self._enter_refresh(scope, body, held)
        if b"\0" in scope.get("query_string", b"") or "\0" in scope["path"] or b"%00" in scope["query_string"]:
            raise NotFound
        return body

    async def _enter_refresh(self, scope: Scope, body: bytes, held: AsyncExitStack) -> None:
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
            await self._charge(self._limits.of_stranger(scope))
            return
        if slot is None:
            held.callback(self._admission.refresh(host_of(scope)).leave)
        await self._charge(self._limits.of_refresh(scope, auth_session_id))
        await held.enter_async_context(self._admission.refreshing)

    def _check_exposure(self, scope: Scope, headers: dict[str, str]) -> None:
        """Raise a refusal for a request of another machine in development, or without TLS in production."""
        refusal = self._exposure.refusal_of(
            path=path_of(scope),
            client=host_of(scope),
            forwarded=forwarded_of(scope),
            host=headers.get("host"),
            scheme=headers.get("x-forwarded-proto"),
        )
        if refusal is not None:
            raise refusal

    def _check_preflight(self, scope: Scope, headers: dict[str, str]) -> None:
        """Check the origin and the method of a browser's CORS preflight.

        Raises Forbidden if one is not allowed.
        """
        if self._cors is None or not is_preflight(scope, headers):
            return
        if not self._cors.is_origin_allowed(headers["origin"]):
            raise Forbidden(http_texts.ORIGIN_FORBIDDEN)
        if headers.get("access-control-request-method", "GET") not in self._cors.allow_methods:
            raise Forbidden(http_texts.METHOD_FORBIDDEN)

    def _most(self, headers: dict[str, str]) -> int:
        """Return how many bytes of a webhook body over MAX_BODY to read, which is refused whatever its token."""
        return MAX_READ if webhook_receive.is_genuine(self._runtime, headers) else MAX_BODY

    def _claims(self, headers: dict[str, str]) -> AccessClaims | None:
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
