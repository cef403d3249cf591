"""The life of one socket: upgrade, handshake, read loop, close (docs/protocol.md#websockets)."""

import asyncio
import functools
from typing import Any

from aiohttp import EofStream, WSMsgType, web
from aiohttp.http import WebSocketError

from core.base import http_texts, languages, logs, metrics
from core.base.clock import monotonic
from core.base.errors import Unavailable
from core.base.languages import Text
from core.messages.rules import TooFast
from core.probes import Refusal, own_headers, refuse
from realtime import close_codes, frames, websocket
from realtime.admission import Admission
from realtime.arrivals import Arrivals
from realtime.budgets import AUTH_COST, SYNC_COST
from realtime.commands import Commands
from realtime.connection import CLOSE_S, Connection
from realtime.handshake import Handshake
from realtime.hub import Hub
from realtime.websocket import Inbox

CLOSED = object()
STOPPING = Refusal(status=503, code=Unavailable.code, message=http_texts.STOPPING, retry_after_seconds=1)
NO_UPGRADE = Refusal(status=400, code="MALFORMED", message=http_texts.NO_UPGRADE)

log = logs.get("socket")


class Sockets:
    """Serve the sockets of one path."""

    def __init__(self, hub: Hub, commands: Commands, arrivals: Arrivals, admission: Admission, path: str) -> None:
        self._hub = hub
        self._admission = admission
        self._commands = commands
        self._handshake = Handshake(hub, commands, arrivals, admission, path)
        self._path = path
        self.accepting = True  # False: upgrades are refused
        self.open = True  # False: frames are dropped

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Run a socket from its upgrade to its close."""
        transport = request.transport
        if transport is None:
            return websocket.Upgraded()
        address = self._admission.address_of(request)
        accept = websocket.accept_key(request)
        refusal = self._refusal_of(request, transport, accept)
        if accept is None or refusal is not None:
            return self._refused(request, refusal or NO_UPGRADE, address)
        headers = request.headers
        language = languages.of_errors(headers.get("Accept-Language"), headers.get("X-Locale"))
        connection = Connection(self._hub.connections, transport, self._path, address, language)
        self._admission.begin(connection)
        take = functools.partial(self._take, connection)
        overrun = functools.partial(connection.close, close_codes.TOO_FAST)
        inbox, _parser = websocket.upgrade(request, transport, accept, self._own_headers(request), take, overrun)
        try:
            if await self._handshake.begin(connection, inbox):
                await self._read(connection, inbox)
        except WebSocketError as error:
            connection.close(error.code)
        except (ConnectionError, EofStream):
            pass
        except Exception:
            log.exception("websocket failed")
            transport.abort()
        finally:
            self._admission.end(connection)
            self._hub.connections.unregister(connection)
            self._log_refusal(connection)
            if connection.budget is not None:
                self._hub.budgets.close(connection.budget, monotonic())
            connection.closing = True
            connection.gone.set()
            # aiohttp closes the transport now, and that waits until the peer has read all pending data.
            asyncio.get_running_loop().call_later(CLOSE_S, transport.abort)
        return websocket.Upgraded()

    def _own_headers(self, request: web.Request) -> dict[str, str]:
        return own_headers(self._hub.runtime, request.headers.get("X-Request-Id", ""))

    def _refusal_of(self, request: web.Request, transport: asyncio.Transport, accept: str | None) -> Refusal | None:
        if not self.accepting:
            return STOPPING
        if accept is None:
            return NO_UPGRADE
        return self._admission.refusal_of(request, transport.get_extra_info("socket").fileno())

    def _refused(self, request: web.Request, refusal: Refusal, address: str) -> web.Response:
        """Answer a refused upgrade and log it."""
        log.info("websocket refused", path=self._path, status=refusal.status, address=address)
        answer = refuse(request, refusal)
        if refusal is NO_UPGRADE:
            answer.headers["Sec-WebSocket-Version"] = "13"
        if refusal.status == 503:  # frees the descriptor; the next attempt may get a lower one
            answer.force_close()
        return answer

    def _log_refusal(self, connection: Connection) -> None:
        """Log a socket that the service closed with one of close_codes.REFUSALS; do nothing for others."""
        if connection.refused_with is None:
            return
        actor = connection.actor
        log.info(
            "websocket refused",
            path=self._path,
            close_code=connection.refused_with,
            address=connection.address,
            user_id=actor.user_id if actor is not None else None,
            auth_session_id=actor.auth_session_id if actor is not None else None,
            milliseconds=round((monotonic() - connection.began) * 1000),
        )

    async def _read(self, connection: Connection, inbox: Inbox) -> None:
        """Handle the frames that need waiting, until the peer closes."""
        while True:
            left = await inbox.read()
            if isinstance(left, tuple):  # a message that arrived while another frame was being handled
                left = self._take(connection, left)
            if left is CLOSED:
                return
            if left is not None:
                await self._carry_out(connection, left)
            inbox.done()

    def _take(self, connection: Connection, message: Any) -> Any:
        """Handle a message if that needs no waiting and return None; else return its frame for `_read`, or CLOSED."""
        try:
            now = connection.last_seen = monotonic()
            connection.pinged = 0
            kind = message.type
            if kind is WSMsgType.CLOSE:
                connection.close(websocket.answer_to_close(message.data))
                return CLOSED
            # Ignore frames that the peer sent before it saw our close frame. Its own close frame ends the loop.
            if connection.closing or connection.muted or connection.leaving:
                return None
            if kind is WSMsgType.TEXT:
                frame = self._frame(connection, message.data, now)
                if frame is not None and not self._commands.handle_now(connection, frame, now):
                    return frame
            elif connection.pay(1, now):
                _answer_other(connection, message)
        except Exception:
            log.exception("handling a frame failed")
            connection.transport.abort()
            return CLOSED
        return None

    def _frame(self, connection: Connection, data: bytes, now: float) -> Any:
        """Read a frame and charge the user for it. Return None if it is refused."""
        try:
            frame = frames.read(self._path, data)
        except frames.Unreadable as error:
            if isinstance(error, frames.NotText):
                connection.close(close_codes.NOT_TEXT)
            elif connection.pay(1, now):
                connection.error(error.code, error.text, error.ref)
            return None
        kind = type(frame)
        if kind is frames.Sync:
            if not self._pay_sync(connection, frame, now):
                return None
        elif not connection.pay(AUTH_COST if kind is frames.Auth else 1, now):
            return None
        return frame if self.open else None  # stopping: the app repeats unacknowledged frames to another process

    def _pay_sync(self, connection: Connection, frame: frames.Sync, now: float) -> bool:
        """Charge the user for a `sync` and return whether it may run.

        Over the limit it gets TOO_FAST; only a flood is closed.
        """
        budget = connection.budget
        assert budget is not None
        if budget.frames.take(SYNC_COST, now):
            return True
        if budget.refusals.take(1, now):
            metrics.LIMITED.labels("socket_frames").inc()
            wait = budget.frames.seconds_until(SYNC_COST)
            connection.refuse(TooFast, frame.ref, retry_after_seconds=wait)
        else:
            connection.close(close_codes.TOO_FAST)
        return False

    async def _carry_out(self, connection: Connection, frame: Any) -> None:
        if isinstance(frame, frames.Auth):
            await self._handshake.repeat(connection, frame)
        else:
            await self._commands.handle(connection, frame)


def _answer_other(connection: Connection, message: Any) -> None:
    """Answer a ping by a pong and a binary frame by an error; ignore a pong."""
    if message.type is WSMsgType.PING:
        connection.pong(message.data)
    elif message.type is WSMsgType.BINARY:
        connection.error(frames.INVALID_FRAME, Text(en="Frames must be text.", id="Frame harus berupa teks."))
