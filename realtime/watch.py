"""Periodic work on sockets: pings, token expiry, and finding in the database the frames that the bus lost."""

import asyncio
import contextlib
import datetime as dt
import itertools
import math
from collections.abc import Iterable

from core.base.clock import as_text, monotonic, real_sleep
from core.base.errors import Unavailable
from core.sessions import deliver
from core.sessions.messages import chats
from core.telemetry import logs
from realtime import close_codes
from realtime.connection import PING_S, Connection
from realtime.feeds import PARTS, Feed
from realtime.hub import Hub
from realtime.revocation import Revocation

TICK_S = 0.5
EXPIRING_S = 60  # service seconds before the token expires; at most half the token's life
EVENTS_EVERY_S = 1.0
CHATS_EVERY_S = 3.0
EVENTS_BACK = dt.timedelta(seconds=10)
STEP_S = 0.1  # real seconds; if service time moves by more against the monotonic clock, planned looks may be late
REVOKED_BACK_S = 1.0  # auth sessions that ended this long before the last tick are looked at again
LOOKS = 250  # sockets that are checked in one iteration of the event loop

log = logs.get("watch")


class SocketWatch:
    """Watch the sockets of a hub."""

    def __init__(self, hub: Hub, revocation: Revocation) -> None:
        self._hub = hub
        self._revocation = revocation
        self._hurried = PARTS  # parts that are still to be checked at the faster pace
        self._resubscribed = asyncio.Event()
        self._expiring_s = min(EXPIRING_S, hub.runtime.settings.access_token_seconds / 2)
        self._events_since = hub.runtime.clock.real_now()
        self._scale = hub.runtime.clock.scale
        self._tick = int(monotonic() / TICK_S)
        self._offset = self._service_seconds() - monotonic() * self._scale

    def on_resubscribe(self) -> None:
        """Look for lost messages soon, because frames sent before a new bus subscription may be lost.

        Events are looked for each EVENTS_EVERY_S all the same.
        """
        self._hurried = PARTS
        self._resubscribed.set()

    async def tick(self) -> None:
        """Until cancelled, ping, warn of expiring tokens, and close dead or expired sockets.

        Ticks are numbered by the monotonic clock. Each looks at the sockets that something is due for.
        """
        while True:
            now = monotonic()
            await real_sleep((self._tick + 1) * TICK_S - now)
            now = monotonic()
            due = self._due(now)
            for start in range(0, len(due), LOOKS):
                self._look_at_all(due[start : start + LOOKS])
                await real_sleep(0)  # let pending frames be sent

    def _due(self, now: float) -> list[Connection]:
        """Return the sockets to look at: planned ones, those with a new token, and those of ended auth sessions.

        All of them, if service time has made a step.
        """
        connections = self._hub.connections
        last, self._tick = self._tick, int(now / TICK_S)
        due = dict.fromkeys(connections.looks.take(last + 1, self._tick))
        for login in self._hub.runtime.caches.revoked.added_since(last * TICK_S - REVOKED_BACK_S):
            due.update(dict.fromkeys(connections.of_login(login)))
        offset = self._service_seconds() - now * self._scale
        if abs(offset - self._offset) > STEP_S * self._scale:
            self._offset = offset
            due = dict.fromkeys(connections)
        return list(due)

    def _service_seconds(self) -> float:
        return self._hub.runtime.now().timestamp()

    def _look_at_all(self, connections: Iterable[Connection]) -> None:
        now, service_now = monotonic(), self._service_seconds()
        for connection in connections:
            if connection not in self._hub.connections:
                continue  # closed since
            try:
                self._look_at(connection, now, service_now)
                self._plan(connection, now, service_now)
            except Exception as error:  # a broken socket must not stop the checks of the others
                if not isinstance(error, ConnectionError | RuntimeError):
                    log.exception("checking a websocket failed")
                connection.transport.abort()

    def _plan(self, connection: Connection, now: float, service_now: float) -> None:
        """Plan the next look at a socket, for its next ping or what is due for its token."""
        actor = connection.actor
        if actor is None or connection.closing:
            return
        at = connection.last_seen + PING_S * (connection.pinged + 1)
        token_due = actor.expires_at - (0 if connection.warned else self._expiring_s)
        at = min(at, now + (token_due - service_now) / self._scale)
        tick = max(self._tick + 1, math.ceil(at / TICK_S))
        self._hub.connections.looks.plan(connection, tick)

    def _look_at(self, connection: Connection, now: float, service_now: float) -> None:
        actor = connection.actor
        if actor is None or connection.closing:
            return
        if actor.auth_session_id in self._hub.runtime.caches.revoked:
            self._revocation.close([connection])
        elif actor.expires_at <= service_now:
            connection.close(close_codes.NOT_AUTHENTICATED)
        elif not connection.warned and actor.expires_at - service_now <= self._expiring_s and connection.ready:
            connection.warned = True
            at = dt.datetime.fromtimestamp(actor.expires_at, dt.UTC)
            connection.answer("auth_expiring", at=as_text(at))
        if now - connection.last_seen >= PING_S * (connection.pinged + 1) and not connection.closing:
            if connection.pinged >= 2:
                connection.close(close_codes.TOO_SLOW)
                return
            connection.pinged += 1
            connection.ping()

    async def find_events(self) -> None:
        """Until cancelled, send unacknowledged events that have not been sent to the sockets here."""
        while True:
            await real_sleep(EVENTS_EVERY_S)
            started = self._hub.runtime.clock.real_now()
            try:
                async for notices in deliver.waiting(
                    self._hub.runtime,
                    since=self._events_since,
                    older_than_s=EVENTS_EVERY_S / 2,
                    wanted=self._hub.events.is_missing,
                ):
                    for notice in notices:
                        self._hub.events.send(notice)
                self._events_since = started - EVENTS_BACK
            except Unavailable:
                continue
            except Exception:
                log.exception("looking for lost events failed")

    async def find_messages(self) -> None:
        """Until cancelled, compare each feed with the database, and send the messages and read markers that the bus
        lost.

        A pass over all feeds is split into parts by session id. So frames do not wait while thousands of feeds are
        compared, and new feeds delay no other. The database returns only the sessions that differ.
        """
        for turn in itertools.cycle(range(PARTS)):
            await self._pause()
            self._hurried = max(0, self._hurried - 1)
            feeds = self._hub.feeds.part(turn)
            if not feeds:
                continue
            try:
                await self._compare_all(feeds)
            except Unavailable:
                await real_sleep(EVENTS_EVERY_S)
                self._hurried = PARTS
            except Exception:
                log.exception("looking for lost messages failed")

    async def _pause(self) -> None:
        """Wait between two parts. A new subscription of the bus ends the longer pause."""
        if self._hurried > 0 or self._hub.runtime.bus.degraded:
            await real_sleep(EVENTS_EVERY_S / PARTS)
            return
        self._resubscribed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CHATS_EVERY_S / PARTS):
                await self._resubscribed.wait()

    async def _compare_all(self, feeds: dict[str, Feed]) -> None:
        # Read before the query, so the database must have at least these.
        sent = {session_id: feed.sent for session_id, feed in feeds.items()}
        markers = [feed.read_markers for feed in feeds.values()]
        for progress in await chats.progress_since(self._hub.runtime, list(feeds), list(sent.values()), markers):
            feed = self._hub.feeds.get(progress.id)
            if feed is None:
                continue
            if feed is feeds[progress.id] and progress.last_seq < sent[progress.id]:
                self._hub.feeds.drop_lost(feed)
            else:
                self._catch_up(feed, progress)

    def _catch_up(self, feed: Feed, progress: chats.ChatProgress) -> None:
        now = self._hub.runtime.now()
        for marker in self._hub.feeds.catch_up(feed, progress):
            with contextlib.suppress(ConnectionError):
                self._hub.send_read_marker(feed.moved(marker, feed.read_markers.of(marker), at=now))
