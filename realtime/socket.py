"""The life of one socket: upgrade, handshake, frames, close (docs/protocol.md#websockets)."""

import asyncio
from typing import Any

from aiohttp import WSMsgType, web

from core.app.probes import HttpRefusal, exposure_of, own_headers, refuse
from core.base import http_texts, languages
from core.base.clock import monotonic
from core.base.errors import Unavailable
from core.base.languages import Text
from core.security.exposure import ExposureCheck
from core.sessions.messages.rules import TooFast
from core.telemetry import logs, metrics
from realtime import close_codes, frames, websocket
from realtime.admission import SocketAdmission
from realtime.budgets import AUTH_COST, SYNC_COST
from realtime.commands import Commands
from realtime.connection import CLOSE_S, Connection
from realtime.handshake import Arrivals, Handshake
from realtime.hub import Hub
from realtime.inbox import CLOSED, SocketInbox
from realtime.protocol import Http
from realtime.websocket import Headers

STOPPING = HttpRefusal(status=503, code=Unavailable.code, message=http_texts.STOPPING, retry_after_seconds=1)
NO_UPGRADE = HttpRefusal(status=400, code="MALFORMED", message=http_texts.NO_UPGRADE)

log = logs.get("socket")


class Upgraded(web.StreamResponse):
    """The response that aiohttp gets for a connection that it no longer has; it writes nothing."""

    def __init__(self) -> None:
        super().__init__(status=101)
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write nothing."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Write nothing."""


class Sockets:
    """Serve the sockets of one path."""

    def __init__(self, hub: Hub, commands: Commands, arrivals: Arrivals, admission: SocketAdmission, path: str) -> None:
        self._hub = hub
        self._admission = admission
        self._commands = commands
        self._handshake = Handshake(hub, commands, arrivals, admission, path)
        self._path = path
        self._exposure = ExposureCheck(hub.runtime.settings)
        self.accepting = True  # False: upgrades are refused
        self.open = True  # False: frames are dropped

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer a request that `upgrade` has left: refuse it, or upgrade it if others were before it."""
        protocol = request.protocol
        assert isinstance(protocol, Http)
        if protocol.transport is None or protocol.transport.is_closing():
            return Upgraded()
        judged, protocol.refusal = protocol.refusal or self._judge(protocol, request.headers, protocol.transport), None
        if isinstance(judged, HttpRefusal):
            return self._refused(request, judged, self._admission.address_of(protocol.host, request.headers))
        self._open(protocol, protocol.transport, request.headers, judged)
        return Upgraded()

    def upgrade(self, protocol: Http, headers: Headers) -> None:
        """Upgrade a connection as soon as the headers of its first request are read, without aiohttp's task for it.

        A refusal is left to `serve`.
        """
        if protocol.transport is None or protocol.transport.is_closing():
            return
        judged = self._judge(protocol, headers, protocol.transport)
        if isinstance(judged, HttpRefusal):
            protocol.refusal = judged
        else:
            self._open(protocol, protocol.transport, headers, judged)

    def _judge(self, protocol: Http, headers: Headers, transport: asyncio.Transport) -> str | HttpRefusal:
        """Return the key that accepts an upgrade, or why it is refused."""
        if not self.accepting:
            return STOPPING
        exposed = exposure_of(self._exposure, self._path, protocol.host, headers)
        if exposed is not None:
            return exposed
        accept = websocket.accept_key(headers)
        if accept is None:
            return NO_UPGRADE
        return self._admission.refusal_of(headers, transport.get_extra_info("socket").fileno()) or accept

    def _open(self, protocol: Http, transport: asyncio.Transport, headers: Headers, accept: str) -> None:
        """Answer the upgrade, and take the connection from aiohttp."""
        address = self._admission.address_of(protocol.host, headers)
        language = languages.of_errors(headers.get("Accept-Language"), headers.get("X-Locale"))
        connection = Connection(self._hub.connections, transport, self._path, address, language)
        own = own_headers(self._hub.runtime, headers.get("X-Request-Id") or "")
        transport.write(websocket.answer(accept, own))
        self._admission.begin(connection)
        self._handshake.await_auth(connection)
        inbox = SocketInbox(connection, self)
        behind = protocol.hand_over(inbox)
        if behind:
            inbox.data_received(behind)

    def _refused(self, request: web.Request, refusal: HttpRefusal, address: str) -> web.Response:
        """Answer a refused upgrade and log it."""
        log.info("websocket refused", path=self._path, status=refusal.status, address=address)
        answer = refuse(request, refusal)
        if refusal is NO_UPGRADE:
            answer.headers["Sec-WebSocket-Version"] = "13"
        if refusal.status == 503:  # frees the descriptor; the next attempt may get a lower one
            answer.force_close()
        return answer

    def ended(self, connection: Connection, code: int | None, *, lost: bool) -> None:
        """Forget a socket whose messages have all been handled, and close it; see Receiver."""
        if code is not None:
            connection.close(code)
        self._handshake.stop_waiting(connection)
        self._admission.end(connection)
        self._hub.connections.unregister(connection)
        self._log_refusal(connection)
        if connection.budget is not None:
            self._hub.budgets.close(connection.budget, monotonic())
        connection.end()
        if not lost:
            transport = connection.transport
            transport.close()  # waits until the peer has read all pending data
            if transport.get_write_buffer_size():
                asyncio.get_running_loop().call_later(CLOSE_S, transport.abort)

    def flooded(self, connection: Connection) -> None:
        """Close a socket with too many bytes of an unfinished message."""
        connection.close(close_codes.TOO_FAST)

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

    def take(self, connection: Connection, message: Any) -> Any:
        """Handle a message if that needs no waiting and return None; else return its frame, or CLOSED.

        The first frame, which is `auth`, is left as the message that it is.
        """
        try:
            if connection.auth_timer is not None:
                return self._handshake.take(connection, message)
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
                fault = error.explain()
                details = fault.details_in(connection.language)
                connection.error(fault.code, fault.text, fault.ref, **({} if details is None else {"details": details}))
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

    async def carry_out(self, connection: Connection, left: Any) -> None:
        """Handle a frame that needs waiting, or the first message of a socket."""
        if isinstance(left, frames.Auth):
            await self._handshake.repeat(connection, left)
        elif isinstance(left, tuple):
            await self._handshake.begin(connection, left)
        else:
            await self._commands.handle(connection, left)


def _answer_other(connection: Connection, message: Any) -> None:
    """Answer a ping by a pong and a binary frame by an error; ignore a pong."""
    if message.type is WSMsgType.PING:
        connection.pong(message.data)
    elif message.type is WSMsgType.BINARY:
        text = Text(en="Frames must be text.", id="Frame harus berupa teks.")
        connection.error(frames.INVALID_FRAME, text, frames.find_ref(message.data))
