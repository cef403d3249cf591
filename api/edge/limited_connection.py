"""HTTP/1.1 connections: limits of time, size and number, and the error answers before the application runs.

A client that sends nothing, or a byte at a time, occupies only a connection. Each phase has a timeout: the headers of a
request, its body, and the pause between two requests (uvicorn's keep-alive). A request over a limit is answered, and
then the connection reads and discards for a moment: closing it at once could reset it and lose the answer.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.edge.body_limits import BODY_S
from api.edge.plain_answers import unread_refusal
from api.refusals import HEADERS_TOO_LARGE, MALFORMED, REQUEST_TIMEOUT, Refusal, refusal_of
from core.base.errors import DomainError, Unavailable
from core.base.ids import new_id
from core.bus.rate_limit import RateLimited
from core.runtime.container import Runtime
from core.security.connections import (
    ALL,
    HEADERS_S,
    LINGER_S,
    MAX_FIELDS,
    MAX_HEAD,
    ONE_ADDRESS,
    WRITE_S,
    ConnectionCounts,
)
from core.telemetry import logs, metrics

BODY_GRACE_S = 5.0  # added to BODY_S, so that the application answers a late body first
MAX_PIPELINED = 16  # requests waiting behind the one that is being answered
TOO_MANY: dict[str, type[DomainError]] = {ALL: Unavailable, ONE_ADDRESS: RateLimited}


class CoalescingTransport:
    """A transport that joins the writes of one event loop iteration into one system call.

    The head and the body of an answer are written separately. What this buys is in
    docs/decisions/0020-below-the-frameworks.md.
    `closes_later` is called before the transport closes; if it returns True, it will close the transport later.
    """

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, closes_later: Callable[[], bool]
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._closes_later = closes_later
        self._waiting: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send the data with the other writes of this event loop iteration."""
        if not self._waiting:
            self._loop.call_soon(self.flush)
        self._waiting.append(data)

    def flush(self) -> None:
        """Send the buffered data. A client that has disconnected since gets nothing."""
        if self._waiting:
            data = b"".join(self._waiting)
            self._waiting.clear()
            if not self._transport.is_closing():
                self._transport.write(data)

    def write_eof(self) -> None:
        """Send the buffered data, and close the transport for writing."""
        self.flush()
        self._transport.write_eof()

    def close(self) -> None:
        """Send the buffered data, and close."""
        self.flush()
        if not self._closes_later():
            self._transport.close()


class HeadTooLarge(Exception):
    """The headers are over a limit; raised to stop the parser."""


class LimitedConnection(HttpToolsProtocol):
    """One connection with limits. `protocol_of` sets `runtime` and `counts` in a subclass."""

    runtime: Runtime
    counts: ConnectionCounts

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Wrap the transport, start the timeout of the first headers, and refuse the connection if there are too
        many."""
        joined = CoalescingTransport(transport, self.loop, self._closes_later)
        super().connection_made(cast("asyncio.Transport", joined))
        self._host = self.client[0] if self.client else ""
        self._head_size = self._fields = self._named = 0
        self._in_head = True
        self._in_body = self._refused = False
        self._due: asyncio.TimerHandle | None = self.loop.call_later(HEADERS_S, self._headers_are_late)
        self._unread: asyncio.TimerHandle | None = None
        too_many = self.counts.add(self._host)
        if too_many is not None:
            self._refuse(refusal_of(TOO_MANY[too_many]), retry_after_s=1)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting the connection, and cancel its timeouts."""
        self._refused = True  # nothing lingers: uvicorn closes the transport of a lost connection again
        self.counts.remove(self._host)
        self._not_due()
        self._read_on()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start a timeout of WRITE_S for a client that does not read."""
        super().pause_writing()
        self._must_read()

    def resume_writing(self) -> None:
        """Cancel that timeout, because the client reads again."""
        super().resume_writing()
        self._read_on()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, with a timeout of WRITE_S for data that the client has not read."""
        super().timeout_keep_alive_handler()
        self._must_read()

    def _close(self) -> None:
        """Close the connection, with a timeout of WRITE_S for data that the client has not read."""
        self.transport.close()
        self._must_read()

    def _must_read(self) -> None:
        if self._unread is None:
            self._unread = self.loop.call_later(WRITE_S, self._is_not_read)

    def _read_on(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _is_not_read(self) -> None:
        metrics.LIMITED.labels("http_write_seconds").inc()
        self.transport.abort()  # `close` would wait until the client reads

    def data_received(self, data: bytes) -> None:
        """Parse the data unless the connection was refused, and start the timeout of an incomplete request."""
        if self._refused:
            return
        if not self._in_body:
            self._head_size += len(data)
        self._parse(data)
        if self._refused or self.transport.is_closing():
            return
        self._start_parsed()
        if self._in_head and self._head_size > MAX_HEAD:
            self._refuse(HEADERS_TOO_LARGE, limit="http_headers")
        elif self._due is None and self._in_body:
            self._due = self.loop.call_later(BODY_S + BODY_GRACE_S, self._body_is_late)
        elif self._due is None and (self.cycle is None or self.cycle.response_complete):
            self._due = self.loop.call_later(HEADERS_S, self._headers_are_late)

    def _parse(self, data: bytes) -> None:
        super().data_received(data)

    def _start_parsed(self) -> None:
        """Start requests that waited until the data was parsed; here there are none."""

    def on_message_begin(self) -> None:
        """Reset the counts of the headers."""
        super().on_message_begin()
        self._in_head = True
        self._fields = 0
        self._named = 0

    def on_url(self, url: bytes) -> None:
        """Count the bytes of the path."""
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header and its bytes."""
        self._fields += 1
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._named += size
        if self._named > MAX_HEAD or self._fields > MAX_FIELDS:
            raise HeadTooLarge

    def on_headers_complete(self) -> None:
        """Cancel the timeout of the headers; drop the connection if too many requests are pipelined."""
        self._not_due()
        self._in_head, self._in_body = False, True
        self._head_size = 0
        if len(self.pipeline) >= MAX_PIPELINED:
            metrics.LIMITED.labels("http_pipelined").inc()
            self._refused = True
            self.transport.abort()
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass on a part of the body, unless the connection was refused."""
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Cancel the timeout of the body."""
        self._not_due()
        self._in_body = False
        if not self._refused:
            super().on_message_complete()

    def _not_due(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _headers_are_late(self) -> None:
        self._due = None
        metrics.LIMITED.labels("http_headers_seconds").inc()
        if self._head_size:
            self._refuse(REQUEST_TIMEOUT)
        else:
            self._close()

    def _body_is_late(self) -> None:
        self._due = None
        metrics.LIMITED.labels("http_body_seconds").inc()
        self._close()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: a request for an upgrade is answered like any other request, and has its own log line."""

    def send_400_response(self, msg: str) -> None:
        """Answer a request that the parser has refused, and close."""
        if self._refused:
            return
        if self._named > MAX_HEAD or self._fields > MAX_FIELDS:
            self._refuse(HEADERS_TOO_LARGE, limit="http_headers")
        else:
            self._refuse(MALFORMED)

    def _refuse(self, refusal: Refusal, *, limit: str | None = None, retry_after_s: int | None = None) -> None:
        """Send a refusal, discard incoming data for LINGER_S, and close."""
        self._refused = True
        self._not_due()
        if limit is not None:
            metrics.LIMITED.labels(limit).inc()
        metrics.REFUSALS.labels(refusal.code).inc()
        request_id = new_id()
        # The parser starts with None as the headers.
        answer = unread_refusal(
            refusal, self.headers or (), now=self.runtime.now(), request_id=request_id, retry_after_s=retry_after_s
        )
        self.transport.write(answer)
        self._linger()
        logs.write_line(
            {"event": "request refused unread", "status": refusal.status, "code": refusal.code,
             "address": self._host, "request_id": request_id},
            at=self.runtime.clock.real_now(),
        )  # fmt: skip

    def _closes_later(self) -> bool:
        """Discard the rest of a body for LINGER_S before the connection closes, if it was answered while it arrived."""
        if self._refused or not self._in_body or self.cycle is None or not self.cycle.response_complete:
            return False
        self._refused = True
        self._not_due()
        self._linger()
        return True

    def _linger(self) -> None:
        self.transport.write_eof()
        self._due = self.loop.call_later(LINGER_S, self._close)
