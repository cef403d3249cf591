"""The HTTP client that all providers of a process share (docs/protocol.md#providers)."""

import asyncio
import contextlib
import enum
import json
import math
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

import aiohttp
import attrs
from yarl import URL

from core.base.clock import monotonic
from core.telemetry import metrics, traces

CONNECTIONS_PER_HOST = 100  # for each provider; there is no common limit, so that a slow provider delays no other
# Seconds. Common servers close a connection that is idle for 5 s. A POST that is sent at that moment fails, and can't
# be repeated: the provider may have received it.
IDLE_S = 4.0
MOST = 1 << 20  # bytes of a response body
PART = 1 << 16
PROBE_EVERY_S = 5.0
PROBE_S = 2.0  # for an answer


class Operation(enum.Enum):
    """A kind of provider and a call to it: the labels of the metrics."""

    CREATE_INVOICE = ("gateway", "create")
    FIND_INVOICES = ("gateway", "find")
    READ_INVOICE = ("gateway", "read")
    VOID_INVOICE = ("gateway", "void")
    CREATE_REFUND = ("gateway", "refund")
    FIND_REFUNDS = ("gateway", "find_refunds")
    READ_REFUND = ("gateway", "read_refund")
    SEND_CODE = ("otp", "send")
    CHECK_CODE = ("otp", "check")
    SEND_PUSH = ("push", "send")
    GET_TOKEN = ("push", "token")
    READ_KEYS = ("identity", "keys")


@attrs.frozen(kw_only=True)
class ProviderFault:
    """Why a provider can't be used (`connection`, `timeout` or `server`), and the real seconds since that was seen."""

    reason: str
    seconds: float


@attrs.define
class _Probe:
    """The last look at a provider. `failed_at`: when the present fault was first seen."""

    turn: asyncio.Lock = attrs.Factory(asyncio.Lock)
    asked_at: float = -math.inf
    reason: str | None = None
    failed_at: float | None = None


class HttpClient:
    """Keeps connections to providers open between calls, for `idle_s` seconds. It follows no redirects and keeps no
    cookies."""

    def __init__(self, *, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._probes: dict[str, _Probe] = {}  # by URL: one for each provider

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, url: str | URL, *, operation: Operation, timeout_s: float, **more: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Make one request, and count it. `timeout_s` includes the wait for a connection and the reading of the body.

        `more` are aiohttp's arguments, such as `json`, `data`, `params` and `headers`. An error that leaves the block
        counts as a failure of the call, so callers should catch the ValueError of `read_json` outside. Raises
        aiohttp.ClientError, also after `close`, TimeoutError and OSError.
        """
        session = self._opened()
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        began, status = monotonic(), 0
        reason: str | None = None
        call = session.request(method, url, timeout=timeout, allow_redirects=False, **more)
        try:
            async with _traced(method, URL(url).host or "", call) if traces.is_on() else call as response:
                status = response.status
                yield response
        except BaseException as error:
            reason = _reason(error)
            raise
        finally:
            metrics.PROVIDER_SECONDS.labels(*operation.value).observe(monotonic() - began)
            if (reason := _fault(status) or reason) is not None:
                metrics.PROVIDER_ERRORS.labels(*operation.value, reason).inc()

    def _opened(self) -> aiohttp.ClientSession:
        """Return the session. Raises aiohttp.ClientConnectionError after `close`."""
        if self._closed:  # work that outlives the shutdown handles it like a lost connection
            raise aiohttp.ClientConnectionError("the client is closed")
        if self._session is None:  # aiohttp needs a running event loop for it
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, limit_per_host=CONNECTIONS_PER_HOST, keepalive_timeout=self._idle_s
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def fault_of(self, url: str) -> ProviderFault | None:
        """Return what is wrong with the server at a URL; None if it answers.

        It is asked without credentials, and at most every PROBE_EVERY_S. Each answer below 500 is good. The metrics do
        not count these questions.
        """
        probe = self._probes.setdefault(url, _Probe())
        async with probe.turn:
            if monotonic() >= probe.asked_at + PROBE_EVERY_S:
                reason = await self._ask(url)
                probe.asked_at = monotonic()
                probe.failed_at = None if reason is None else probe.failed_at or probe.asked_at
                probe.reason = reason
            if probe.reason is None or probe.failed_at is None:
                return None
            return ProviderFault(reason=probe.reason, seconds=monotonic() - probe.failed_at)

    async def _ask(self, url: str) -> str | None:
        timeout = aiohttp.ClientTimeout(total=PROBE_S)
        try:
            async with self._opened().get(url, timeout=timeout, allow_redirects=False) as response:
                return "server" if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR else None
        except TimeoutError:
            return "timeout"
        except (aiohttp.ClientError, OSError):
            return "connection"

    async def close(self) -> None:
        """Close all connections, and refuse new requests."""
        self._closed = True
        if self._session is not None:
            await self._session.close()


def _reason(error: BaseException) -> str:
    """Return why a call failed. It is cancelled when the deadline of several attempts has passed."""
    if isinstance(error, TimeoutError | asyncio.CancelledError):
        return "timeout"
    return "connection" if isinstance(error, aiohttp.ClientError | OSError) else "unreadable"


def _fault(status: int) -> str | None:
    """Return what an answer's status says about the provider; None if it did what it should."""
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return "credentials"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return "limited"
    return "server" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else None


@contextlib.asynccontextmanager
async def _traced(
    method: str, host: str, call: contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Make a call in a span. The provider gets no traceparent, and the span no path: it may name a person."""
    ids = {"http.request.method": method, "server.address": host}
    with traces.span(f"{method} {host}", kind="client", attributes=ids) as span:
        async with call as response:
            span.note({"http.response.status_code": response.status})
            yield response


async def read_json(response: aiohttp.ClientResponse) -> Any:
    """Return the JSON of a response, None if the body is empty.

    Raises ValueError if it is not JSON, is nested too deeply or is longer than MOST bytes, and whatever aiohttp raises.
    """
    body = bytearray()
    async for part in response.content.iter_chunked(PART):
        body += part
        if len(body) > MOST:
            raise ValueError("too long")
    try:
        return json.loads(body) if body.strip() else None
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
