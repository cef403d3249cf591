"""The life of one socket: upgrade, handshake, snapshot, read loop, close (docs/protocol.md#websockets)."""

import asyncio
import contextlib
import functools
from typing import Any

from aiohttp import EofStream, WSMsgType, web
from aiohttp.http import WebSocketError

from core.base import http_texts, languages, logs, metrics
from core.base.actor import Actor, UserType
from core.base.clock import monotonic
from core.base.errors import DomainError, Unavailable
from core.base.languages import Language, Text
from core.messages.rules import TooFast
from core.probes import Refusal, own_headers, refuse
from core.reads import callers, chats, mitra_desk
from core.transactions import TRANSIENT_ERRORS
from realtime import close_codes, frames, websocket
from realtime.admission import Admission
from realtime.arrivals import Arrivals
from realtime.commands import Commands
from realtime.connection import CLOSE_S, Connection, encode
from realtime.hub import Hub
from realtime.websocket import Inbox

HANDSHAKE_S = 5.0  # real seconds within which the auth frame must arrive
LATE_S = 0.5  # a timer this late was delayed by the event loop, which is not the client's fault
READ_S = 0.1  # for reading data that has already arrived
HANDSHAKE_CONTROLS = 10  # pings and pongs before the auth frame
PING_S = 25
CLOSED = object()
# The cost of frames that read the database. Others cost 1, and more if they name another user's session or an unknown
# event.
SYNC_COST = AUTH_COST = 5

STOPPING = Refusal(status=503, code="UNAVAILABLE", message=http_texts.STOPPING, retry_after_seconds=1)
NO_UPGRADE = Refusal(status=400, code="MALFORMED", message=http_texts.NO_UPGRADE)

log = logs.get("socket")


def language_of(request: web.Request) -> Language:
    """Return the language of a socket's error frames, from `Accept-Language`, else `X-Locale`, else the default."""
    headers = request.headers
    accepted = languages.preferred(headers.get("Accept-Language"))
    return accepted or languages.parse_locale(headers.get("X-Locale")) or languages.DEFAULT


class Sockets:
    """Serve the sockets of one path."""

    def __init__(self, hub: Hub, commands: Commands, arrivals: Arrivals, admission: Admission, path: str) -> None:
        self._hub = hub
        self._admission = admission
        self._arrivals = arrivals
        self._commands = commands
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
        connection = Connection(self._hub, transport, self._path, address, language_of(request))
        self._admission.begin(connection)
        overrun = functools.partial(connection.close, close_codes.TOO_FAST)
        inbox, _parser = websocket.upgrade(request, transport, accept, self._own_headers(request), overrun)
        try:
            if await self._handshake(connection, inbox):
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
            self._hub.unregister(connection)
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

    async def _handshake(self, connection: Connection, inbox: Inbox) -> bool:
        """Read the auth frame, subscribe, then send the snapshot before frames that were queued since the subscription.

        Return whether to read on.
        """
        loop = asyncio.get_running_loop()
        late = loop.call_later(HANDSHAKE_S, self._late, connection, inbox, loop.time() + HANDSHAKE_S)
        try:
            message = await self._first(connection, inbox)
        finally:
            late.cancel()
        inbox.take = functools.partial(self._take, connection)
        if message.type is WSMsgType.CLOSE:
            connection.close(websocket.answer_to_close(message.data))
            return False
        if not connection.closing:
            await self._introduce(connection, message)
        inbox.done()
        return True

    async def _first(self, connection: Connection, inbox: Inbox) -> Any:
        """Return the first message other than a ping or pong.

        Too many of those close the socket and raise EofStream.
        """
        for _ in range(HANDSHAKE_CONTROLS + 1):
            message = await inbox.read()
            if connection.closing or message.type not in (WSMsgType.PING, WSMsgType.PONG):
                return message
            inbox.done()
            if message.type is WSMsgType.PING:
                connection.pong(message.data)
        connection.close(close_codes.TOO_FAST)
        raise EofStream

    def _late(self, connection: Connection, inbox: Inbox, due: float) -> None:
        """Close a socket whose auth frame has not been read in time.

        Data that has already arrived is read first, because the timer can fire before it. If the event loop itself is
        late, the client is not at fault: it gets close code 1013, which lets it keep its token.
        """
        loop = asyncio.get_running_loop()
        late = loop.time() - due > LATE_S

        def judge() -> None:
            if connection.actor is not None or connection.closing:
                return
            if inbox.waiting:  # the auth frame; or a ping, so look again: pings must not keep the socket open
                loop.call_later(READ_S, judge)
            else:
                slow = late or self._admission.slow
                if slow:
                    self._admission.count_refused("socket_lag")
                connection.close(close_codes.TRY_LATER if slow else close_codes.NOT_AUTHENTICATED)

        loop.call_later(READ_S, judge)

    async def _introduce(self, connection: Connection, message: Any) -> None:
        frame = None
        if message.type is WSMsgType.TEXT:
            with contextlib.suppress(frames.Unreadable):
                frame = frames.read(self._path, message.data)
        if not isinstance(frame, frames.Auth):
            connection.close(close_codes.NOT_AUTHENTICATED)
        elif not self._admission.begin_handshake():
            connection.close(close_codes.TRY_LATER)
        else:
            try:
                await self._arrive(connection, frame)
            finally:
                self._admission.end_handshake()

    async def _arrive(self, connection: Connection, frame: frames.Auth) -> None:
        """Authenticate a new socket, subscribe it, and send its snapshot."""
        if (refused := await self._authenticate(connection, frame)) is not None:
            connection.close(refused)
            return
        assert connection.actor is not None
        self._admission.end(connection)
        now = monotonic()
        connection.budget = self._hub.budgets.open(connection.actor.user_id, now)
        if not connection.budget.arrivals.take(AUTH_COST, now):
            connection.close(close_codes.TOO_FAST)
        if not connection.closing:
            self._hub.register(connection)
            self._commands.arrived(connection)
            await self._snapshot(connection, frame.ref)

    async def _authenticate(self, connection: Connection, frame: frames.Auth) -> int | None:
        """Make the token's user the connection's. Return the close code if that fails, or None.

        A later `auth` must have a token of the same user.
        """
        try:
            actor = await callers.authenticate(self._hub.runtime, frame.token, audience="public")
        except Unavailable:
            self._hub.runtime.note_overload()
            return close_codes.GOING_AWAY  # the token was not rejected: the app keeps it and reconnects
        except DomainError:
            return close_codes.NOT_AUTHENTICATED
        if connection.actor is not None and connection.actor.user_id != actor.user_id:
            return close_codes.NOT_AUTHENTICATED
        if connection.actor is not None:
            self._hub.forget_login(connection)  # the new token may belong to another auth session
        connection.actor = actor
        connection.warned = False
        return None

    async def _snapshot(self, connection: Connection, ref: str | None) -> None:
        assert connection.actor is not None
        # Read before the snapshot, so that the snapshot is never older than its epoch.
        epoch = self._hub.runtime.db.epoch
        try:
            fields = await self._state(connection, connection.actor)
            unacknowledged = await self._arrivals.unacknowledged(connection.actor)
        except (Unavailable, *TRANSIENT_ERRORS):
            self._hub.runtime.note_overload()
            connection.close(close_codes.GOING_AWAY)
            return
        frame = {
            "type": "auth_ok",
            "user": {"id": connection.actor.user_id, "type": connection.actor.user_type.value},
            "connection_id": connection.id,
            "epoch": epoch,
            "ping_seconds": PING_S,
            **fields,
            "server_time": self._hub.server_time(),
        }
        if ref is not None:
            frame["ref"] = ref
        connection.put_first([encode(frame), *self._hub.repeated(connection, unacknowledged)])

    async def _state(self, connection: Connection, actor: Actor) -> dict[str, Any]:
        runtime = self._hub.runtime
        if self._path == "chat":
            # The feeds start before the snapshot is read, so a message committed in between is in at least one of them.
            for progress in await self._arrivals.progress(actor):
                self._hub.remember(progress)
            return {"sessions": await self._arrivals.snapshot(actor)}
        if actor.user_type is UserType.MITRA:
            return {"requests": await mitra_desk.chat_requests(runtime, actor)}
        return {"searching": await chats.searching(runtime, actor)}

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
                if kind is WSMsgType.PING:
                    connection.pong(message.data)
                elif kind is WSMsgType.BINARY:
                    connection.error("INVALID_FRAME", Text(en="Frames must be text.", id="Frame harus berupa teks."))
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
            connection.error(TooFast.code, TooFast.message, frame.ref, retry_after_seconds=wait)
        else:
            connection.close(close_codes.TOO_FAST)
        return False

    async def _carry_out(self, connection: Connection, frame: Any) -> None:
        if not isinstance(frame, frames.Auth):
            await self._commands.handle(connection, frame)
        elif (refused := await self._authenticate(connection, frame)) is not None:
            connection.close(refused)
        elif not connection.closing:  # it may have been closed by the limit of sockets since
            assert connection.budget is not None
            connection.budget.forget_strange()
            connection.ready = False
            self._hub.register(connection)  # an anonymous customer may have joined the account
            await self._snapshot(connection, frame.ref)
