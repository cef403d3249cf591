"""The life of one socket: upgrade, handshake, snapshot, read loop, close (contract 7)."""

import asyncio
import contextlib
import functools
from typing import Any

from aiohttp import EofStream, WSMsgType, web
from aiohttp.http import WebSocketError

from core.base import logs
from core.base.actor import Actor, UserType
from core.base.clock import monotonic
from core.base.errors import DomainError, Unavailable
from core.reads import chats, people
from core.runtime import AWAY
from realtime import close_codes, frames, wire
from realtime.arrivals import Arrivals
from realtime.commands import Commands
from realtime.connection import CLOSE_S, Connection, encode
from realtime.hub import Hub
from realtime.wire import Inbox

HANDSHAKE_S = 5.0  # real seconds for the auth frame (contract 7)
PING_S = 25
CLOSED = object()

log = logs.get("socket")


class Sockets:
    """Serves one path's sockets."""

    def __init__(self, hub: Hub, commands: Commands, arrivals: Arrivals, path: str) -> None:
        self._hub = hub
        self._arrivals = arrivals
        self._commands = commands
        self._path = path
        self.open = True

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Run a socket from its upgrade to its close."""
        if not self.open:
            return web.Response(status=503, headers={"Retry-After": "1"})
        accept = wire.accept_key(request)
        if accept is None:
            error = {"error": {"code": "MALFORMED", "message": "This address speaks WebSocket."}}
            return web.json_response(error, status=400, headers={"Sec-WebSocket-Version": "13"})
        transport = request.transport
        if transport is None:
            return wire.Upgraded()
        inbox, _parser = wire.upgrade(request, transport, accept)
        connection = Connection(self._hub, transport, self._path)
        try:
            if await self._handshake(connection, inbox):
                await self._read(connection, inbox)
        except WebSocketError as error:
            connection.close(error.code)
        except (ConnectionError, EofStream):
            pass
        except Exception:
            log.exception("a socket broke")
            transport.abort()
        finally:
            self._hub.unregister(connection)
            connection.closing = True
            connection.gone.set()
            # aiohttp closes it now, which waits until the peer has read what is still to be written.
            asyncio.get_running_loop().call_later(CLOSE_S, transport.abort)
        return wire.Upgraded()

    async def _handshake(self, connection: Connection, inbox: Inbox) -> bool:
        """Take the auth frame, subscribe, then send the snapshot: what comes between is sent behind it.

        Returns whether there is more to read.
        """
        loop = asyncio.get_running_loop()
        late = loop.call_later(HANDSHAKE_S, connection.close, close_codes.NOT_AUTHENTICATED)
        try:
            message = await inbox.read()
        finally:
            late.cancel()
        inbox.take = functools.partial(self._take, connection)
        if message.type is WSMsgType.CLOSE:
            connection.close(wire.answer_to_close(message.data))
            return False
        if not connection.closing:
            await self._introduce(connection, message)
        inbox.done()
        return True

    async def _introduce(self, connection: Connection, message: Any) -> None:
        frame = None
        if message.type is WSMsgType.TEXT:
            with contextlib.suppress(frames.Unreadable):
                frame = frames.read(self._path, message.data)
        if not isinstance(frame, frames.Auth):
            connection.close(close_codes.NOT_AUTHENTICATED)
        elif (refused := await self._authenticate(connection, frame)) is not None:
            connection.close(refused)
        elif not connection.closing:
            self._hub.register(connection)
            self._commands.arrived(connection)
            await self._snapshot(connection, frame.ref)

    async def _authenticate(self, connection: Connection, frame: frames.Auth) -> int | None:
        """Let the connection be its token's user. Returns the code to close with when it can't be."""
        try:
            actor = await people.authenticate(self._hub.runtime, frame.token, audience="public")
        except Unavailable:
            return close_codes.GOING_AWAY  # nothing was said of the token: the app keeps it, and comes again
        except DomainError:
            log.info("socket refused", path=self._path)
            return close_codes.NOT_AUTHENTICATED
        if connection.actor is not None and connection.actor.user_id != actor.user_id:
            log.info("socket refused", path=self._path)
            return close_codes.NOT_AUTHENTICATED
        connection.actor = actor
        connection.warned = False
        return None

    async def _snapshot(self, connection: Connection, ref: str | None) -> None:
        assert connection.actor is not None
        epoch = self._hub.runtime.db.epoch  # before the snapshot is read: it is never older than its epoch
        try:
            fields = await self._state(connection, connection.actor)
            unheard = await self._arrivals.unheard(connection.actor)
        except (Unavailable, *AWAY):
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
        connection.put_first([encode(frame), *self._hub.repeated(connection, unheard)])

    async def _state(self, connection: Connection, actor: Actor) -> dict[str, Any]:
        runtime = self._hub.runtime
        if self._path == "chat":
            # The feeds begin before the snapshot is read: what is committed in between is in both, never in neither.
            for place in await self._arrivals.places(actor):
                self._hub.remember(place)
            return {"sessions": await self._arrivals.snapshot(actor)}
        if actor.user_type is UserType.MITRA:
            return {"requests": await chats.chat_requests(runtime, actor)}
        return {"searching": await chats.searching(runtime, actor)}

    async def _read(self, connection: Connection, inbox: Inbox) -> None:
        """Do what can't be done at once, until the peer closes."""
        while True:
            left = await inbox.read()
            if isinstance(left, tuple):  # a message that came while another one was being carried out
                left = self._take(connection, left)
            if left is CLOSED:
                return
            if left is not None:
                await self._carry_out(connection, left)
            inbox.done()

    def _take(self, connection: Connection, message: Any) -> Any:
        """Carry a message out, if that can be done at once; else return the frame, for the task. CLOSED ends it."""
        try:
            now = connection.last_seen = monotonic()
            connection.pinged = 0
            kind = message.type
            if kind is WSMsgType.CLOSE:
                connection.close(wire.answer_to_close(message.data))
                return CLOSED
            if connection.closing:  # what the peer said before it saw our close frame; its own ends the loop
                return None
            if kind is WSMsgType.PING:
                connection.pong(message.data)
            elif kind is not WSMsgType.PONG and not connection.may_send(now):
                connection.close(close_codes.TOO_FAST)
            elif not self.open:
                return None  # the process stops: what is not acknowledged is sent again, to another one
            elif kind is WSMsgType.TEXT:
                frame = self._frame(connection, message.data)
                if frame is not None and not self._commands.at_once(connection, frame, now):
                    return frame
            elif kind is WSMsgType.BINARY:
                connection.error("INVALID_FRAME", "Frames are text.")
        except Exception:
            log.exception("a frame could not be carried out")
            connection.transport.abort()
            return CLOSED
        return None

    def _frame(self, connection: Connection, data: bytes) -> Any:
        """Read a frame; what is none is refused."""
        try:
            return frames.read(self._path, data)
        except frames.Unreadable as error:
            if isinstance(error, frames.NotText):
                connection.close(close_codes.NOT_TEXT)
            else:
                connection.error(error.code, str(error), error.ref)
            return None

    async def _carry_out(self, connection: Connection, frame: Any) -> None:
        if not isinstance(frame, frames.Auth):
            await self._commands.handle(connection, frame)
        elif (refused := await self._authenticate(connection, frame)) is not None:
            connection.close(refused)
        elif not connection.closing:  # it may have been one too many meanwhile
            connection.ready = False
            self._hub.register(connection)  # the account may have grown since
            await self._snapshot(connection, frame.ref)
