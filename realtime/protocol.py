"""Limits for HTTP/1.1 connections of the realtime listener, until they become WebSockets.

aiohttp only closes idle connections. This subclass of its connection adds the limits of the public listener
(core/security/connections.py): time to send complete headers, time to read an answer, and the number of connections for
the process and for each address. From the upgrade on, other limits apply (realtime/admission.py) and the connection is
not counted here.
"""

import asyncio
import resource
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web
from aiohttp.http import RawRequestMessage
from aiohttp.streams import StreamReader

from core.app import probes
from core.app.probes import HEADERS_TOO_LARGE, HttpConnection, HttpRefusal, HttpServer
from core.base import http_texts
from core.base.errors import Unavailable
from core.base.languages import DEFAULT
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
from realtime.inbox import SocketInbox
from realtime.websocket import Headers

# File descriptors kept free for the database, Redis and files. Sockets leave more of them free, for the probes
# (admission.SPARE_FILES).
LAST_FILES = 50

TOO_MANY = {
    ALL: HttpRefusal(status=503, code=Unavailable.code, message=Unavailable.message, retry_after_seconds=1),
    ONE_ADDRESS: HttpRefusal(status=429, code=RateLimited.code, message=RateLimited.message, retry_after_seconds=1),
}
LATE = HttpRefusal(status=408, code="REQUEST_TIMEOUT", message=http_texts.REQUEST_TIMEOUT)

log = logs.get("realtime")


class Http(HttpConnection):
    """One connection of the listener, counted until it closes or becomes a WebSocket.

    `upgrades` has a function for each path of WebSockets. It is called with the headers of an upgrade that is the first
    request. It calls `hand_over`, or sets `refusal` and leaves the request to aiohttp.
    """

    __slots__ = ("_body", "_counted", "_counts", "_due", "_head_size", "_refused", "_unread", "_upgrades", "refusal")

    def __init__(
        self, manager: web.Server, *, runtime: Runtime, counts: ConnectionCounts, upgrades: "Upgrades", **options: Any
    ) -> None:
        super().__init__(manager, runtime=runtime, **options)
        self._counts = counts
        self._upgrades = upgrades
        self.refusal: HttpRefusal | None = None
        self._counted = self._refused = False
        self._head_size = 0  # bytes received since the last request's headers, without its body
        self._body: StreamReader | None = None  # of the last request
        self._due: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection and start the timer for its first headers; refuse it if there are too many."""
        super().connection_made(transport)
        assert self.transport is not None
        self._counted = True
        too_many = self._counts.add(self.host)
        if transport.get_extra_info("socket").fileno() >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] - LAST_FILES:
            metrics.LIMITED.labels("socket_files").inc()
            self._refused = True
            self.transport.abort()
            return
        # With a high-water mark of 0, any unread byte pauses writing, and that starts the write timer.
        self.transport.set_write_buffer_limits(high=0)
        self._due = self._loop.call_later(HEADERS_S, self._headers_are_late, self.transport)
        if too_many is not None:
            self._refuse(TOO_MANY[too_many], self.transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop counting the connection."""
        self._leave()
        self._not_due()
        super().connection_lost(exc)

    def hand_over(self, inbox: SocketInbox) -> bytes:
        """Give the transport to a WebSocket, and end; return the bytes that arrived behind the request."""
        transport, behind = self.transport, self._message_tail
        assert transport is not None
        if self._buffer_paused:  # because of too many bytes behind the request
            transport.resume_reading()
        self._message_tail = b""
        self._messages.clear()
        self._leave()
        self._not_due()
        transport.set_write_buffer_limits()
        transport.set_protocol(inbox)  # type: ignore[arg-type]  # it has the methods of a protocol
        self.transport = None  # so that the end of this protocol does not close it
        if not self._request_in_progress and self._task_handler is not None:
            self._task_handler.cancel()  # it waits for a request
        self.connection_lost(None)
        return behind

    def _leave(self) -> None:
        """Stop counting the connection and cancel its write timer."""
        if self._counted:
            self._counted = False
            self._counts.remove(self.host)
        self._read_on()

    def data_received(self, data: bytes) -> None:
        """Pass data on, unless the connection was refused; start the timer while headers are incomplete."""
        if self._upgraded:
            super().data_received(data)
            return
        if self._refused:
            return
        before = self._request_count
        super().data_received(data)
        if self._request_count != before:
            self._not_due()
            self._head_size = 0
            self._body = self._messages[-1][1]
            if self._upgraded and self._request_count == 1:
                self._upgrade()
        elif self._body is None or self._body.is_eof():
            self._head_grows(len(data))

    def _upgrade(self) -> None:
        """Become a WebSocket, if that is what the first request asks for."""
        message = self._messages[0][0]
        if isinstance(message, RawRequestMessage) and message.method == "GET":
            upgrade = self._upgrades.get(message.path)
            if upgrade is not None:
                upgrade(self, message.headers)

    def _head_grows(self, size: int) -> None:
        self._head_size += size
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        if self._head_size > MAX_HEAD:
            metrics.LIMITED.labels("http_headers").inc()
            self._refuse(HEADERS_TOO_LARGE, transport)
        elif self._due is None and self._head_size and not self._request_in_progress:
            self._due = self._loop.call_later(HEADERS_S, self._headers_are_late, transport)

    def _headers_are_late(self, transport: asyncio.Transport) -> None:
        self._due = None
        metrics.LIMITED.labels("http_headers_seconds").inc()
        if self._head_size:
            self._refuse(LATE, transport)
        else:
            transport.close()

    def _not_due(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def pause_writing(self) -> None:
        """Give the client WRITE_S seconds to read its answer."""
        super().pause_writing()
        if self._counted and self._unread is None and self.transport is not None:
            self._unread = self._loop.call_later(WRITE_S, self._is_not_read, self.transport)

    def resume_writing(self) -> None:
        """Cancel the write timer: the client has read everything."""
        super().resume_writing()
        self._read_on()

    def _read_on(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _is_not_read(self, transport: asyncio.Transport) -> None:
        self._unread = None
        metrics.LIMITED.labels("http_write_seconds").inc()
        transport.abort()  # `close` would wait for the client to read

    def _refuse(self, refusal: HttpRefusal, transport: asyncio.Transport) -> None:
        """Answer with a refusal, discard incoming data for LINGER_S seconds, and close."""
        self._refused = True
        self._not_due()
        content, headers = self.answer_to(refusal, DEFAULT)  # the language is unknown before the headers are read
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        transport.write(
            f"HTTP/1.1 {refusal.status} \r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n"
            f"Connection: close\r\n{head}\r\n".encode()
            + content
        )
        transport.write_eof()
        self._due = self._loop.call_later(LINGER_S, transport.close)


Upgrades = Mapping[str, Callable[[Http, Headers], None]]  # by path


class SocketRunner(probes.HttpRunner):
    """Run an application over these connections."""

    def __init__(self, app: web.Application, runtime: Runtime, upgrades: Upgrades) -> None:
        super().__init__(
            app,
            runtime,
            shutdown_timeout=2.0,
            max_headers=MAX_FIELDS,
        )
        self._counts = ConnectionCounts(runtime.settings)
        self._upgrades = upgrades

    async def _make_server(self) -> web.Server:
        made = await web.AppRunner._make_server(self)
        return HttpServer(made, Http, runtime=self._runtime, counts=self._counts, upgrades=self._upgrades)
