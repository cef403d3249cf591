"""Periodic work on sockets: pings, token expiry, and finding in the database the frames that the bus lost."""

import contextlib
import datetime as dt
import itertools
from collections.abc import Iterable

from core.base import logs
from core.base.clock import as_text, monotonic, real_sleep
from core.base.errors import Unavailable
from core.flows import delivery
from core.reads import chats
from core.transactions import TRANSIENT_ERRORS
from realtime import close_codes
from realtime.connection import PING_S, Connection
from realtime.feed import Feed
from realtime.hub import Hub
from realtime.revocation import Revocation

TICK_S = 0.5
EXPIRING_S = 60  # service seconds before the token expires; at most half the token's life
EVENTS_EVERY_S = 1.0
CHATS_EVERY_S = 3.0
EVENTS_BACK = dt.timedelta(seconds=10)
TURNS = 30  # parts into which a pass over all sessions is split; of thousands, a part takes a few milliseconds
LOOKS = 250  # sockets that are checked in one iteration of the event loop

log = logs.get("watch")


class Watch:
    """Watch the sockets of a hub."""

    def __init__(self, hub: Hub, revocation: Revocation) -> None:
        self._hub = hub
        self._revocation = revocation
        self._hurried = TURNS  # parts that are still to be checked at the faster pace
        self._expiring_s = min(EXPIRING_S, hub.runtime.settings.access_token_seconds / 2)
        self._events_since = hub.runtime.clock.real_now()

    def on_resubscribe(self) -> None:
        """Look for lost messages soon, because frames sent before a new bus subscription may be lost.

        Events are looked for each EVENTS_EVERY_S all the same.
        """
        self._hurried = TURNS

    async def tick(self) -> None:
        """Until cancelled, ping, warn of expiring tokens, and close dead or expired sockets."""
        while True:
            await real_sleep(TICK_S)
            present = list(self._hub.connections)
            for start in range(0, len(present), LOOKS):
                self._look_at_all(present[start : start + LOOKS])
                await real_sleep(0)  # let pending frames be sent
            self._hub.feeds.drop_idle()

    def _look_at_all(self, connections: Iterable[Connection]) -> None:
        now, service_now = monotonic(), self._hub.runtime.now().timestamp()
        for connection in connections:
            if connection not in self._hub.connections:
                continue  # closed since
            try:
                self._look_at(connection, now, service_now)
            except Exception as error:  # a broken socket must not stop the checks of the others
                if not isinstance(error, ConnectionError | RuntimeError):
                    log.exception("checking a websocket failed")
                connection.transport.abort()

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
                async for notices in delivery.waiting(
                    self._hub.runtime,
                    since=self._events_since,
                    older_than_s=EVENTS_EVERY_S / 2,
                    wanted=self._hub.events.is_missing,
                ):
                    for notice in notices:
                        self._hub.events.send(notice)
                self._events_since = started - EVENTS_BACK
            except TRANSIENT_ERRORS:
                continue
            except Exception:
                log.exception("looking for lost events failed")

    async def find_messages(self) -> None:
        """Until cancelled, compare each feed with the database, and send the messages and read markers that the bus
        lost.

        A pass over all feeds is split into parts by session id. So frames do not wait while thousands of feeds are
        compared, and new feeds delay no other.
        """
        for turn in itertools.cycle(range(TURNS)):
            hurry = self._hurried > 0 or self._hub.runtime.bus.degraded
            await real_sleep((EVENTS_EVERY_S if hurry else CHATS_EVERY_S) / TURNS)
            self._hurried = max(0, self._hurried - 1)
            feeds = self._hub.feeds.part(turn, of=TURNS)
            if not feeds:
                continue
            try:
                await self._compare_all(feeds)
            except (Unavailable, *TRANSIENT_ERRORS):
                await real_sleep(EVENTS_EVERY_S)
                self._hurried = TURNS
            except Exception:
                log.exception("looking for lost messages failed")

    async def _compare_all(self, feeds: dict[str, Feed]) -> None:
        # Read before the query, so the database must have at least these.
        sent = {session_id: feed.sent for session_id, feed in feeds.items()}
        for progress in await chats.progress_of_sessions(self._hub.runtime, list(feeds)):
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
