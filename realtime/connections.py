"""The sockets of this process: by path and user, by auth session, and those with frames to write."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Any

from core.base.actor import Actor
from core.base.clock import as_text, monotonic
from core.bus import channels
from core.bus.subscription import Subscription
from core.runtime.container import Runtime
from core.telemetry import logs, metrics
from realtime import close_codes
from realtime.connection import Connection
from realtime.event_trail import SentEvents

SOCKETS_A_USER = 8  # on one path of one process
# Clients whose sockets close together also come back together, so sockets are closed in portions of at least PORTION.
# There are at most PORTIONS of them, so that all sockets are closed within 10 s.
PORTION = 500
PORTION_EVERY_S = 0.25
PORTIONS = 40
NEXT_TICK = -1
NO_TICK = 0

log = logs.get("connections")


def channels_of(actor: Actor) -> list[str]:
    """Return the channels with the events of a user, under each of their ids."""
    return [channels.of_recipient(user_id) for user_id in actor.ids]


class Looks:
    """Which sockets are checked in which tick (realtime/watch.py): most have nothing due for seconds."""

    def __init__(self) -> None:
        self._planned: dict[int, set[Connection]] = {}

    def plan(self, connection: Connection, tick: int) -> None:
        """Check a socket in this tick, and not in the one that was planned before."""
        if connection.next_look != tick:
            self.drop(connection)
            connection.next_look = tick
            self._planned.setdefault(tick, set()).add(connection)

    def drop(self, connection: Connection) -> None:
        """Do not check a socket again."""
        planned = self._planned.get(connection.next_look)
        if planned is not None:
            planned.discard(connection)
        connection.next_look = NO_TICK

    def take(self, first: int, last: int) -> list[Connection]:
        """Return the sockets of these ticks, the last one included, and of NEXT_TICK; they are no longer planned."""
        taken: list[Connection] = []
        for tick in (NEXT_TICK, *range(first, last + 1)):
            taken.extend(self._planned.pop(tick, ()))
        for connection in taken:
            connection.next_look = NO_TICK
        return taken


class Connections:
    """The sockets of this process."""

    def __init__(self, runtime: Runtime, heard: Subscription, trail: SentEvents) -> None:
        """`heard` is what this process receives over the bus; it gets the users who are here. `trail` gets the events
        that are written."""
        self._runtime = runtime
        self._trail = trail
        self._heard = heard
        self._all: dict[Connection, tuple[str, ...]] = {}  # with the ids of its user under which it is in `_users`
        self._users: dict[str, dict[str, dict[str, Connection]]] = {"chat": {}, "pairing": {}}
        self._chatting = self._users["chat"]
        self._logins: dict[str, set[Connection]] = {}  # by auth session id
        self._dirty: set[Connection] = set()
        self.looks = Looks()
        self._flushing = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.get_running_loop()

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._all))

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._all

    # -- what a connection uses

    def server_time(self) -> str:
        """Return the service time as text, as frames carry it."""
        return as_text(self._runtime.now())

    def wake(self, connection: Connection) -> None:
        """Write this connection's queued frames in the next iteration of the event loop."""
        self._dirty.add(connection)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write the queued frames of all connections."""
        self._flushing = False
        dirty, self._dirty = self._dirty, set()
        for connection in dirty:
            try:
                connection.flush()
            except Exception:  # a broken socket must not stop the others
                log.exception("writing to a websocket failed")
                connection.transport.abort()

    def note_sent(self, connection: Connection, event_ids: list[str]) -> None:
        """Note that the kernel has taken these events for the connection."""
        if connection.actor is not None:
            self._trail.add(connection.actor.auth_session_id, event_ids)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task in the background; `settled` waits for it."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def settled(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for the background tasks, which include closes under way."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)

    # -- arrivals and departures

    def register(self, connection: Connection) -> None:
        """Subscribe an authenticated connection. If its user has too many on this path, close the oldest."""
        actor = connection.actor
        assert actor is not None
        before = self._all.get(connection, ())
        if not before:
            metrics.SOCKETS.labels(connection.path).inc()
        self._all[connection] = actor.ids
        self.looks.plan(connection, NEXT_TICK)  # which its token may need
        self._logins.setdefault(actor.auth_session_id, set()).add(connection)
        for user_id in actor.ids:
            self._users[connection.path].setdefault(user_id, {})[connection.id] = connection
        self._heard.add(channels_of(actor))
        self._leave(connection, set(before).difference(actor.ids))
        mine = self._users[connection.path][actor.user_id]
        if len(mine) > SOCKETS_A_USER:
            oldest = next(iter(mine.values()))
            self.unregister(oldest)
            oldest.close(close_codes.TOO_MANY_SOCKETS)

    def unregister(self, connection: Connection) -> None:
        """Forget a connection."""
        user_ids = self._all.pop(connection, ())
        if user_ids:
            metrics.SOCKETS.labels(connection.path).dec()
        self._dirty.discard(connection)
        self.looks.drop(connection)
        if connection.actor is not None:
            self.forget_login(connection)
        self._leave(connection, user_ids)

    def _leave(self, connection: Connection, user_ids: Iterable[str]) -> None:
        """Remove a connection from these users, and stop listening to those who have no other one."""
        users = self._users[connection.path]
        for user_id in user_ids:
            mine = users.get(user_id)
            if mine is not None:
                mine.pop(connection.id, None)
                if not mine:
                    del users[user_id]
                    if not self.of_user(user_id):
                        self._heard.remove([channels.of_recipient(user_id)])

    def forget_login(self, connection: Connection) -> None:
        """Remove a connection from its auth session: it is closed, or has authenticated with another one."""
        assert connection.actor is not None
        login = connection.actor.auth_session_id
        mine = self._logins.get(login)
        if mine is not None:
            mine.discard(connection)
            if not mine:
                del self._logins[login]

    # -- who is here

    def of(self, path: str, user_id: str) -> tuple[Connection, ...]:
        """Return a user's connections on one path."""
        mine = self._users[path].get(user_id)
        return tuple(mine.values()) if mine else ()

    def of_user(self, user_id: str) -> tuple[Connection, ...]:
        """Return a user's connections on both paths."""
        return (*self.of("chat", user_id), *self.of("pairing", user_id))

    def of_login(self, auth_session_id: str) -> tuple[Connection, ...]:
        """Return the connections of an auth session."""
        return tuple(self._logins.get(auth_session_id, ()))

    def is_chatting(self, user_id: str) -> bool:
        """Return whether a user has a chat connection."""
        return user_id in self._chatting

    def answering(self) -> set[str]:
        """Return the ids of the users with a connection that answers its pings in time."""
        now = monotonic()
        return {user_id for one, user_ids in self._all.items() if one.answers(now) for user_id in user_ids}

    def any_listening(self, user_ids: Iterable[str]) -> bool:
        """Return whether one of these users has a chat connection that was sent its snapshot."""
        for user_id in user_ids:
            for connection in self._chatting.get(user_id, {}).values():
                if connection.listens:
                    return True
        return False

    def put(self, path: str, user_id: str, frame: bytes, *, skip: str | None = None) -> None:
        """Queue a frame for a user's connections on one path, except for the connection with the id `skip`."""
        mine = self._users[path].get(user_id)
        if mine:
            for connection in mine.values():
                if connection.id != skip:
                    connection.put(frame)

    # -- closing

    def mute(self) -> None:
        """Let the present connections neither send nor handle frames until they are closed."""
        for connection in self._all:
            connection.muted = True

    def close_all(self, code: int) -> None:
        """Close every connection."""
        for connection in self:
            connection.close(code)

    async def close_in_portions(self, code: int, pause: Callable[[float], Awaitable[object]]) -> list[Connection]:
        """Close the present connections in portions, and return the last portion for the caller to close.

        `pause` waits for the given real seconds between two portions. If it returns True, all remaining connections are
        returned at once.
        """
        waiting = list(self._all)
        size = max(PORTION, math.ceil(len(waiting) / PORTIONS))
        while len(waiting) > size:
            portion, waiting = waiting[:size], waiting[size:]
            for connection in portion:
                connection.close(code)
            if await pause(PORTION_EVERY_S) is True:
                break
        return waiting
