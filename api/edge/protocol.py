"""The connections of a listener: how refreshes are paced, and refused before they become a task."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from api.edge.asgi import Scope
from api.edge.gatekeeper import Gatekeeper
from api.edge.limited_connection import LimitedConnection
from api.edge.plain_answers import http_bytes
from api.edge.rate_limits import REFRESH
from core.runtime.container import Runtime
from core.security.connections import ConnectionCounts

REFRESH_LINE = b"POST %s " % REFRESH.encode()
SMALL = 4_096  # bytes; a refresh has a tenth of this, and thousands of connections can hold this much at once
REFRESHES_A_TURN = 16  # refreshes parsed in one iteration of the event loop: one or two milliseconds


class RefreshPacer:
    """Limits how many refreshes a listener parses in one event loop iteration. Other requests are parsed at once.

    After an outage thousands of phones send a refresh at the same moment. The event loop reads all connections with
    data before it does anything else, so it would parse, start and refuse all of them in one iteration; a webhook would
    wait for such an iteration at each of its steps. A refresh above the limit keeps its bytes, up to a limit, until a
    later iteration.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = REFRESHES_A_TURN
        self._renewing = False
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self) -> bool:
        """Return whether one more refresh may be parsed in this iteration, and count it."""
        if not self._renewing:
            self._renewing = True
            self._loop.call_soon(self._renew)
        if self._left <= 0 or self._waiting:
            return False
        self._left -= 1
        return True

    def wait(self, read: Callable[[], None]) -> None:
        """Call `read` in a later iteration, in the order of arrival."""
        self._waiting.append(read)

    def _renew(self) -> None:
        for _ in range(min(REFRESHES_A_TURN, len(self._waiting))):
            # Each is a separate callback, so that a failure does not stop the others.
            self._loop.call_soon(self._waiting.popleft())
        self._renewing = bool(self._waiting)
        self._left = REFRESHES_A_TURN
        if self._renewing:
            self._loop.call_soon(self._renew)


class ListenerConnection(LimitedConnection):
    """One connection of a listener. `protocol_of` sets `runtime`, `counts`, `gatekeeper` and `pacer`."""

    gatekeeper: Gatekeeper
    pacer: RefreshPacer

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin without kept bytes."""
        self._kept = b""
        self._reading = False
        self._unstarted: tuple[RequestResponseCycle, Any] | None = None
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Parse the data, or keep it for a later iteration if it is a refresh above the limit."""
        if self._kept:
            super().data_received(self._take_kept() + data)
        elif data.startswith(REFRESH_LINE) and len(data) <= SMALL and not self.pacer.take():
            self._kept = data
            self.pacer.wait(self._read_kept)
        else:
            super().data_received(data)

    def _read_kept(self) -> None:
        """Parse the kept bytes, unless that has happened already."""
        if self._kept and not self.transport.is_closing():
            super().data_received(self._take_kept())

    def _take_kept(self) -> bytes:
        kept, self._kept = self._kept, b""
        return kept

    def _parse(self, data: bytes) -> None:
        self._reading = True
        super()._parse(data)
        self._reading = False

    def _start_parsed(self) -> None:
        if self._unstarted is not None:
            unstarted, self._unstarted = self._unstarted, None
            self._start_asgi_task(*unstarted)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Start a request's task. A complete refresh that is not admitted is answered here instead, without a task."""
        scope = cast("Scope", cycle.scope)
        if not self.gatekeeper.is_refresh(scope):
            super()._start_asgi_task(cycle, app)
        elif self._reading:
            self._unstarted = cycle, app
        elif cycle.more_body or (refused := self.gatekeeper.admit_refresh(scope)) is None:
            super()._start_asgi_task(cycle, app)
        else:
            start, content = refused
            headers = [*self.server_state.default_headers, *start["headers"]]
            if not cycle.keep_alive:
                headers.append((b"connection", b"close"))
            self.transport.write(http_bytes(start["status"], headers, content))
            cycle.response_started = cycle.response_complete = True
            if not cycle.keep_alive:
                self.transport.close()
            self.on_response_complete()


def protocol_of(runtime: Runtime, counts: ConnectionCounts, gatekeeper: Gatekeeper) -> type[ListenerConnection]:
    """Return the protocol class of a listener. Call it in the event loop."""
    pacer = RefreshPacer(asyncio.get_running_loop())
    members = {"runtime": runtime, "counts": counts, "gatekeeper": gatekeeper, "pacer": pacer}
    return type("Protocol", (ListenerConnection,), members)
