"""The HTTP client that all providers of a process share (docs/protocol.md#providers)."""

import asyncio
import contextlib
import enum
import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

import aiohttp
from yarl import URL

from core.base.clock import monotonic
from core.telemetry import metrics, traces

CONNECTIONS_PER_HOST = 100  # for each provider; there is no common limit, so that a slow provider delays no other
# Seconds. Common servers close a connection that is idle for 5 s. A POST that is sent at that moment fails, and can't
# be repeated: the provider may have received it.
IDLE_S = 4.0
MOST = 1 << 20  # bytes of a response body
PART = 1 << 16


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


class HttpClient:
    """Keeps connections to providers open between calls, for `idle_s` seconds. It follows no redirects and keeps no
    cookies."""

    def __init__(self, *, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, url: str | URL, *, operation: Operation, timeout_s: float, **more: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Make one request, and count it. `timeout_s` includes the wait for a connection and the reading of the body.

        `more` are aiohttp's arguments, such as `json`, `data`, `params` and `headers`. An error that leaves the block
        counts as a failure of the call, so callers should catch the ValueError of `read_json` outside. Raises
        aiohttp.ClientError, also after `close`, TimeoutError and OSError.
        """
        if self._closed:  # work that outlives the shutdown handles it like a lost connection
            raise aiohttp.ClientConnectionError("the client is closed")
        if self._session is None:  # aiohttp needs a running event loop for it
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, limit_per_host=CONNECTIONS_PER_HOST, keepalive_timeout=self._idle_s
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        began, status = monotonic(), 0
        reason: str | None = None
        call = self._session.request(method, url, timeout=timeout, allow_redirects=False, **more)
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
