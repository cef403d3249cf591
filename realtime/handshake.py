"""The handshake of one socket: its `auth` frame, the subscription and the snapshot (docs/protocol.md#websockets)."""

import asyncio
import contextlib
import functools
from typing import Any

from aiohttp import WSMsgType

from core.accounts.logins import callers
from core.base.actor import Actor, UserType
from core.base.batch_loader import PAUSE_S, BatchLoader
from core.base.clock import monotonic
from core.base.errors import DomainError, Unavailable
from core.bus import channels
from core.events.notices import Notice
from core.pairing import views
from core.runtime.container import Runtime
from core.sessions import deliver
from core.sessions.messages import chats
from core.sessions.messages.chats import ChatProgress, OpenSession
from realtime import close_codes, frames, websocket
from realtime.admission import SocketAdmission
from realtime.budgets import AUTH_COST
from realtime.commands import Commands
from realtime.connection import PING_S, Connection, encode
from realtime.connections import channels_of
from realtime.hub import Hub
from realtime.inbox import CLOSED

HANDSHAKE_S = 5.0  # real seconds within which the auth frame must arrive
LATE_S = 0.5  # a timer this late was delayed by the event loop, which is not the client's fault
READ_S = 0.1  # for reading data that has already arrived
HANDSHAKE_CONTROLS = 10  # pings and pongs before the auth frame
SIDES = (UserType.CUSTOMER, UserType.MITRA)


class Arrivals:
    """The reads for new connections: those that arrive at the same time share a statement for each of the three."""

    def __init__(self, runtime: Runtime) -> None:
        self._progress: dict[UserType, BatchLoader[list[ChatProgress]]] = {
            side: BatchLoader(functools.partial(chats.progress_of_parties, runtime, side), nothing=[], pause_s=PAUSE_S)
            for side in SIDES
        }
        self._snapshots: dict[UserType, BatchLoader[list[OpenSession]]] = {
            side: BatchLoader(functools.partial(chats.snapshots, runtime, side), nothing=[], pause_s=PAUSE_S)
            for side in SIDES
        }
        self._unacknowledged: BatchLoader[list[Notice]] = BatchLoader(
            functools.partial(deliver.unacknowledged, runtime), nothing=[], pause_s=PAUSE_S
        )

    async def progress(self, actor: Actor) -> list[ChatProgress]:
        """Return the progress of the caller's running chats."""
        return _flat(await self._progress[actor.user_type].of_all(actor.ids))

    async def snapshot(self, actor: Actor) -> list[OpenSession]:
        """Return the caller's running sessions, newest first."""
        found: list[OpenSession] = _flat(await self._snapshots[actor.user_type].of_all(actor.ids))
        return sorted(found, key=lambda session: session.created_at, reverse=True)

    async def unacknowledged(self, actor: Actor) -> list[Notice]:
        """Return the events that the caller's device is owed, oldest first within each of the caller's ids."""
        found: list[Notice] = _flat(await self._unacknowledged.of_all(actor.ids))
        return [notice for notice in found if deliver.is_owed(notice, actor)]


def _flat(found: list[list[Any]]) -> list[Any]:
    return [one for some in found for one in some]


class Handshake:
    """Authenticate the sockets of one path and send their snapshots."""

    def __init__(self, hub: Hub, commands: Commands, arrivals: Arrivals, admission: SocketAdmission, path: str) -> None:
        self._hub = hub
        self._commands = commands
        self._arrivals = arrivals
        self._admission = admission
        self._path = path

    def await_auth(self, connection: Connection) -> None:
        """Begin to wait for the first frame of a new socket."""
        loop = asyncio.get_running_loop()
        connection.auth_timer = loop.call_later(HANDSHAKE_S, self._late, connection, loop.time() + HANDSHAKE_S)

    def stop_waiting(self, connection: Connection) -> None:
        """Stop waiting for the first frame: it has arrived, or the socket has ended."""
        if connection.auth_timer is not None:
            connection.auth_timer.cancel()
            connection.auth_timer = None

    def take(self, connection: Connection, message: Any) -> Any:
        """Handle a message before the first frame, and return None; return the first frame, or CLOSED.

        Too many pings and pongs close the socket.
        """
        if message.type is WSMsgType.CLOSE:
            connection.close(websocket.answer_to_close(message.data))
            return CLOSED
        if connection.closing:
            return None
        if message.type not in (WSMsgType.PING, WSMsgType.PONG):
            self.stop_waiting(connection)
            return message
        if message.type is WSMsgType.PING:
            connection.pong(message.data)
        connection.controls += 1
        if connection.controls <= HANDSHAKE_CONTROLS:
            return None
        connection.close(close_codes.TOO_FAST)
        return CLOSED

    async def repeat(self, connection: Connection, frame: frames.Auth) -> None:
        """Handle a later `auth`: take over its token and send a new snapshot, or close the socket."""
        if (refused := await self._authenticate(connection, frame)) is not None:
            connection.close(refused)
        elif not connection.closing:  # it may have been closed by the limit of sockets since
            assert connection.budget is not None
            connection.budget.forget_strange()
            connection.ready = False
            self._hub.connections.register(connection)  # an anonymous customer may have joined the account
            await self._snapshot(connection, frame.ref)

    def _late(self, connection: Connection, due: float) -> None:
        """Close a socket whose first frame has not arrived in time.

        Data that has already arrived is read first, because the timer can fire before it. If the event loop itself is
        late, the client is not at fault: it gets close code 1013, which lets it keep its token.
        """
        loop = asyncio.get_running_loop()
        late = loop.time() - due > LATE_S

        def judge() -> None:
            if connection.auth_timer is None or connection.closing:
                return
            slow = late or self._admission.slow
            if slow:
                self._admission.count_refused("socket_lag")
            connection.close(close_codes.TRY_LATER if slow else close_codes.NOT_AUTHENTICATED)

        loop.call_later(READ_S, judge)

    async def begin(self, connection: Connection, message: Any) -> None:
        """Read the auth frame, subscribe, then send the snapshot before frames that were queued since the
        subscription."""
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
            self._hub.connections.register(connection)
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
            self._hub.connections.forget_login(connection)  # the new token may belong to another auth session
        connection.actor = actor
        connection.warned = False
        return None

    async def _snapshot(self, connection: Connection, ref: str | None) -> None:
        assert connection.actor is not None
        # Read before the snapshot, so that the snapshot is never older than its epoch.
        epoch = self._hub.runtime.db.epoch
        try:
            await self._listen(connection.actor)
            fields = await self._state(connection.actor)
            unacknowledged = await self._arrivals.unacknowledged(connection.actor)
        except Unavailable:
            self._hub.runtime.note_overload()
            connection.close(close_codes.GOING_AWAY)
            return
        frame = {
            "type": "auth_ok",
            "user": {"id": connection.actor.user_id, "type": connection.actor.user_type.value},
            "connection_id": connection.id,
            "epoch": epoch,
            "ping_seconds": PING_S,
            "time_scale": self._hub.runtime.clock.scale,
            **fields,
            "server_time": self._hub.connections.server_time(),
        }
        if ref is not None:
            frame["ref"] = ref
        repeated = self._hub.events.repeated(connection, unacknowledged)
        connection.put_first([encode(frame), *repeated.values()], repeated)

    async def _listen(self, actor: Actor) -> None:
        """Receive what concerns the user before the snapshot is read, so that all of it is in at least one of them."""
        listened = channels_of(actor)
        if self._path == "chat":
            for progress in await self._arrivals.progress(actor):
                self._hub.feeds.remember(progress)
                listened.append(channels.of_session(progress.id))
        await self._hub.heard.confirmed(listened)

    async def _state(self, actor: Actor) -> dict[str, Any]:
        runtime = self._hub.runtime
        if self._path == "chat":
            return {"sessions": await self._arrivals.snapshot(actor)}
        if actor.user_type is UserType.MITRA:
            return {"requests": await views.chat_requests(runtime, actor)}
        return {"searching": await chats.searching(runtime, actor)}
