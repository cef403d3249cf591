"""The sockets of this process, and the fan-out of messages, events and ephemeral frames to them.

Each session with a party connected here has a Feed. Messages reach it from this process's own batches, and from other
processes over the bus: perhaps late, twice or never. The feed sends them strictly by seq. It holds messages that come
early, reads missing ones from the database, and drops those that it has sent before. So a socket gets 1, 2, 3 …
whatever the bus loses. Other stored events carry an event id, and a process sends each of them once to each of its
sockets.
"""

import asyncio
import contextlib
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

import msgspec

from core.base import logs, metrics
from core.base.actor import UserType
from core.base.clock import as_text, monotonic, real_sleep
from core.base.errors import Unavailable
from core.events import notices
from core.events.notices import (
    Envelope,
    EphemeralFrame,
    FramedMessage,
    Notice,
    OwnStatusChanged,
    ReadMarkerMoved,
    SearchProgress,
    StoredMessage,
    TypingChanged,
)
from core.events.signals import AccountJoined, LoginsRevoked, Signal
from core.flows import delivery
from core.reads import chats
from core.reads.chats import ChatProgress
from core.runtime import Runtime
from core.transactions import TRANSIENT_ERRORS
from realtime import close_codes, outgoing
from realtime.budgets import Budgets
from realtime.connection import Connection

SOCKETS_A_USER = 8  # on one path of one process
HOLD_S = 0.2  # wait for a missing message on the bus before reading the database; two busy processes take 0.1
AGAIN_S = 0.25  # until the next read, if the last one did not find it
PAGE = 200
STRANGE_COST = 19  # charged in addition to the frame's 1, for a session that is another user's or doesn't exist
REMEMBER_EVENTS = 50_000  # ids of events that were sent
REMEMBER_ENDS = 10_000  # ids of searches that ended
# Clients whose sockets close together also come back together, so sockets are closed in portions of at least PORTION.
# There are at most PORTIONS of them, so that all sockets are closed within 10 s.
PORTION = 500
PORTION_EVERY_S = 0.25
PORTIONS = 40
LAST_WORD = "mitra_status_changed"  # the event that tells a mitra why their sockets close
LAST_WORD_S = 0.4  # for reading it, because a socket of an ended auth session closes within a second
PAIRING_EVENTS = frozenset({"pairing_status", "chat_request", "chat_request_closed", "payment_updated", LAST_WORD})

log = logs.get("hub")


class Person(msgspec.Struct):
    """A party of a session, as in SessionView."""

    id: str


class Session(msgspec.Struct):
    """The fields of SessionView that a feed needs."""

    id: str
    customer: Person
    mitra: Person


class Started(msgspec.Struct):
    """The payload of `session_started`."""

    session: Session


class SearchStatus(msgspec.Struct):
    """The payload of `pairing_status`."""

    status: str


class Feed:
    """The progress of one session's chat in this process."""

    __slots__ = ("customer_id", "held", "id", "last_seq", "mitra_id", "read_markers", "reading", "sent", "synced_up_to")

    def __init__(self, session_id: str, customer_id: str, mitra_id: str) -> None:
        self.id = session_id
        self.customer_id = customer_id
        self.mitra_id = mitra_id
        self.sent = 0  # every seq up to this one has been sent to the sockets here
        self.last_seq = 0  # the highest seq known to be committed
        self.held: dict[int, StoredMessage | FramedMessage] = {}
        self.reading = False
        self.read_markers = [0, 0, 0, 0]  # in the order of realtime.read_markers
        self.synced_up_to = 0  # up to this seq, the status columns of single messages are final

    def party(self, connection: Connection) -> str | None:
        """Return the id under which the connection's user is a party of the session; None if they aren't one."""
        actor = connection.actor
        if actor is None:
            return None
        party = self.mitra_id if actor.user_type is UserType.MITRA else self.customer_id
        return party if actor.owns(party) else None


class Hub:
    """The sockets of this process."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.budgets = Budgets(runtime.settings)
        self.connections: set[Connection] = set()
        self.users: dict[str, dict[str, dict[str, Connection]]] = {"chat": {}, "pairing": {}}
        self._logins: dict[str, set[Connection]] = {}  # by auth session id
        self.feeds: dict[str, Feed] = {}
        self.sent_events: OrderedDict[str, None] = OrderedDict()
        self.ended_searches: OrderedDict[str, None] = OrderedDict()
        self.unsynced: set[Feed] = set()
        # Returns the ids of a feed's messages that this process is committing now, and will send after the commit.
        self.committing: Callable[[Feed], set[str]] = lambda _feed: set()
        # Loop time at which another process last sent a message of a session that has a feed here.
        self.crossed_at = -math.inf
        self._dirty: set[Connection] = set()
        self._flushing = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.get_running_loop()

    # -- helpers

    def server_time(self) -> str:
        """Return the service time as text, as frames carry it."""
        return as_text(self.runtime.now())

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task in the background; `settled` waits for it."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

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

    # -- connections

    def register(self, connection: Connection) -> None:
        """Subscribe an authenticated connection. If its user has too many on this path, close the oldest."""
        actor = connection.actor
        assert actor is not None
        if connection not in self.connections:
            self.connections.add(connection)
            metrics.SOCKETS.labels(connection.path).inc()
        self._logins.setdefault(actor.auth_session_id, set()).add(connection)
        for user_id in actor.ids:
            self.users[connection.path].setdefault(user_id, {})[connection.id] = connection
        mine = self.users[connection.path][actor.user_id]
        if len(mine) > SOCKETS_A_USER:
            oldest = next(iter(mine.values()))
            self.unregister(oldest)
            oldest.close(close_codes.TOO_MANY_SOCKETS)

    def unregister(self, connection: Connection) -> None:
        """Forget a connection."""
        if connection in self.connections:
            self.connections.remove(connection)
            metrics.SOCKETS.labels(connection.path).dec()
        self._dirty.discard(connection)
        if connection.actor is None:
            return
        self.forget_login(connection)
        users = self.users[connection.path]
        for user_id in connection.actor.ids:
            mine = users.get(user_id)
            if mine is not None:
                mine.pop(connection.id, None)
                if not mine:
                    del users[user_id]

    def forget_login(self, connection: Connection) -> None:
        """Remove a connection from its auth session: it is closed, or has authenticated with another one."""
        assert connection.actor is not None
        login = connection.actor.auth_session_id
        mine = self._logins.get(login)
        if mine is not None:
            mine.discard(connection)
            if not mine:
                del self._logins[login]

    def here(self, path: str, user_id: str) -> Iterable[Connection]:
        """Return a user's connections on one path of this process."""
        mine = self.users[path].get(user_id)
        return tuple(mine.values()) if mine else ()

    def of_user(self, user_id: str) -> Iterable[Connection]:
        """Return a user's connections in this process, on both paths."""
        return (*self.here("chat", user_id), *self.here("pairing", user_id))

    def drop_idle_feeds(self) -> None:
        """Forget the feeds of sessions without a connected party."""
        for feed in list(self.feeds.values()):
            if feed.customer_id not in self.users["chat"] and feed.mitra_id not in self.users["chat"]:
                del self.feeds[feed.id]

    # -- sessions

    def remember(self, progress: ChatProgress) -> Feed:
        """Return the session's feed.

        A new feed starts at the session's last seq, or at 0 if a connected party missed the start of the session.
        """
        feed = self.feeds.get(progress.id)
        if feed is None:
            feed = self.feeds[progress.id] = Feed(progress.id, progress.customer_id, progress.mitra_id)
            # A party connected here has no feed for it: the session started after the party's snapshot and no event
            # reached us, so the feed starts at 0.
            parties = (progress.customer_id, progress.mitra_id)
            unseen = any(connection.listens for party in parties for connection in self.here("chat", party))
            feed.sent = 0 if unseen and progress.status == "active" else progress.last_seq
            feed.read_markers = progress.read_markers
        feed.last_seq = max(feed.last_seq, progress.last_seq)
        return feed

    async def feed_of(self, connection: Connection, session_id: str) -> Feed | None:
        """Return the feed of a session of this connection's user.

        For any other session, charge STRANGE_COST and return None.
        """
        feed = self.feeds.get(session_id)
        budget, actor = connection.budget, connection.actor
        if budget is None or actor is None:
            return None
        if feed is None and not budget.is_strange(session_id, monotonic()):
            places = await chats.progress_of_sessions(self.runtime, [session_id])
            feed = self.feeds.get(session_id)
            if feed is None and places and (actor.owns(places[0].customer_id) or actor.owns(places[0].mitra_id)):
                feed = self.remember(places[0])
        if feed is not None and feed.party(connection) is not None:
            return feed
        now = monotonic()
        if feed is None:
            budget.remember_strange(session_id, now)
        connection.pay(STRANGE_COST, now)
        return None

    # -- fan-out

    def on_frames(self, _channel: str, data: bytes) -> None:
        """Send what arrived over the bus from other processes; `send` has sent our own."""
        envelope = notices.decode(data)
        if any(message.session_id in self.feeds for message in (*envelope.messages, *envelope.framed_messages)):
            self.crossed_at = self._loop.time()
        self.send(envelope)

    def send(self, envelope: Envelope) -> None:
        """Send the frames of an envelope to the sockets here."""
        for message in (*envelope.messages, *envelope.framed_messages):
            self.deliver(message)
        for moved in envelope.read_markers:
            self.send_read_marker(moved)
        for changed in envelope.typing:
            self._send_typing(changed)
        for progress in envelope.searches:
            self._send_progress(progress)
        for changed in envelope.own_statuses:
            self._send_own_status(changed)
        for ephemeral in envelope.ephemeral_frames:
            self._send_ephemeral(ephemeral)
        for notice in envelope.notices:
            self.notify(notice)

    def notify(self, notice: Notice) -> None:
        """Send an event to its recipient's sockets here, unless it has been sent before."""
        path = "pairing" if notice.event in PAIRING_EVENTS else "chat"
        mine = self.users[path].get(notice.recipient_id)
        if not mine or notice.event_id in self.sent_events:
            return
        self.sent_events[notice.event_id] = None
        if len(self.sent_events) > REMEMBER_EVENTS:
            self.sent_events.popitem(last=False)
        if notice.event == "session_started":
            self._begin(notice)
        self._note_end(notice)
        frame = outgoing.event(notice, server_time=self.server_time())
        for connection in tuple(mine.values()):
            connection.put(frame)

    def _begin(self, notice: Notice) -> None:
        """Open the feed of a session that started while a party was connected, so that lost messages are looked for."""
        session = msgspec.json.decode(notice.payload, type=Started).session
        if session.id not in self.feeds:
            self.feeds[session.id] = Feed(session.id, session.customer.id, session.mitra.id)

    def _note_end(self, notice: Notice) -> None:
        """Remember the end of a customer's search, so that a late repeat of its `searching` status is dropped."""
        if notice.event != "pairing_status" or notice.session_id is None:
            return
        if msgspec.json.decode(notice.payload, type=SearchStatus).status != "searching":
            self.ended_searches[notice.session_id] = None
            if len(self.ended_searches) > REMEMBER_ENDS:
                self.ended_searches.popitem(last=False)

    def repeated(self, connection: Connection, unacknowledged: list[Notice]) -> list[bytes]:
        """Return the frames of unacknowledged events for a new connection."""
        is_pairing = connection.path == "pairing"
        mine = [notice for notice in unacknowledged if (notice.event in PAIRING_EVENTS) == is_pairing]
        for notice in mine:
            self._note_end(notice)
        server_time = self.server_time()
        return [outgoing.event(notice, server_time=server_time) for notice in mine]

    def _put(self, path: str, user_id: str, frame: bytes, *, skip: str | None = None) -> None:
        """Send a frame to a user's sockets here, except to the connection `skip`."""
        for connection in self.here(path, user_id):
            if connection.id != skip:
                connection.put(frame)

    def send_read_marker(self, moved: ReadMarkerMoved) -> None:
        """Send a read marker to the other party, and `read` to the reader's other devices, which show it, too."""
        reader, writer = moved.customer_id, moved.mitra_id
        if moved.reader is UserType.MITRA:
            reader, writer = writer, reader
        frame = outgoing.message_status(moved)
        self._put("chat", writer, frame)
        if moved.status == "read":
            self._put("chat", reader, frame, skip=moved.skip)

    def _send_typing(self, changed: TypingChanged) -> None:
        self._put("chat", changed.recipient_id, outgoing.typing(changed, server_time=self.server_time()))

    def _send_progress(self, progress: SearchProgress) -> None:
        """Send the number of asked mitras, unless the end of the search has been sent."""
        if progress.session_id not in self.ended_searches:
            frame = outgoing.pairing_status(progress, server_time=self.server_time())
            self._put("pairing", progress.customer_id, frame)

    def _send_own_status(self, changed: OwnStatusChanged) -> None:
        frame = outgoing.mitra_status_changed(changed, server_time=self.server_time())
        self._put("pairing", changed.mitra_id, frame)

    def _send_ephemeral(self, ephemeral: EphemeralFrame) -> None:
        if ephemeral.search_id not in self.ended_searches:
            self._put(ephemeral.path, ephemeral.recipient_id, ephemeral.frame, skip=ephemeral.skip)

    def deliver(self, message: StoredMessage | FramedMessage) -> None:
        """Send a committed message in the order of seq; hold it while earlier ones are missing."""
        feed = self.feeds.get(message.session_id)
        if feed is None:
            # A connection without a snapshot yet will find the message in it.
            parties = (message.customer_id, message.mitra_id)
            if not any(connection.listens for party in parties for connection in self.here("chat", party)):
                return
            feed = self.feeds[message.session_id] = Feed(message.session_id, message.customer_id, message.mitra_id)
        if message.seq > feed.last_seq:
            feed.last_seq = message.seq
        if message.seq == feed.sent + 1:
            self._send(feed, message)
            while feed.held and feed.sent + 1 in feed.held:
                self._send(feed, feed.held.pop(feed.sent + 1))
        elif message.seq > feed.sent:
            feed.held[message.seq] = message
            self.load_missing(feed)

    def _send(self, feed: Feed, message: StoredMessage | FramedMessage) -> None:
        frame = message.frame if isinstance(message, FramedMessage) else outgoing.message(message)
        self._send_frame(feed, message.seq, frame, skip=message.skip)

    def _send_frame(self, feed: Feed, seq: int, frame: bytes, *, skip: str | None = None) -> None:
        feed.sent = seq
        self._put("chat", feed.customer_id, frame, skip=skip)
        self._put("chat", feed.mitra_id, frame, skip=skip)

    def load_missing(self, feed: Feed) -> None:
        """Read missing messages from the database, unless the bus brings them first."""
        if not feed.reading:
            feed.reading = True
            self.spawn(self._load_missing(feed))

    async def _load_missing(self, feed: Feed) -> None:
        try:
            while feed.sent < feed.last_seq:
                behind = feed.sent
                await real_sleep(HOLD_S)
                if feed.sent == behind:
                    await self._read_on(feed)
                if feed.sent == behind:
                    await real_sleep(AGAIN_S)
                if self.feeds.get(feed.id) is not feed:
                    return
            feed.held = {seq: held for seq, held in feed.held.items() if seq > feed.sent}
        finally:
            feed.reading = False

    async def _read_on(self, feed: Feed) -> None:
        """Send the stored messages after `sent`, up to the first gap."""
        with contextlib.suppress(*TRANSIENT_ERRORS):
            while True:
                views = await chats.messages_after(self.runtime, feed.id, after=feed.sent, limit=PAGE)
                if self.feeds.get(feed.id) is not feed:  # dropped since; a party who reconnected has a snapshot
                    return
                soon = self.committing(feed)  # sent after the commit, and not to the sender's own socket
                for view in views:
                    if view.seq == feed.sent + 1 and view.id not in soon:
                        held = feed.held.pop(view.seq, None)
                        if held is not None:
                            self._send(feed, held)
                        else:
                            frame = outgoing.message_read_back(view, server_time=self.server_time())
                            self._send_frame(feed, view.seq, frame)
                if len(views) < PAGE or feed.sent != views[-1].seq:
                    return

    # -- revocation

    def on_signal(self, signal: Signal) -> None:
        """Close the sockets of ended auth sessions, and those of an account that an anonymous customer joined.

        The latter reconnect, and their new snapshot has the sessions of the anonymous customer.
        """
        if isinstance(signal, AccountJoined):
            for connection in self.of_user(signal.customer_id):
                if connection.actor is not None and not connection.actor.owns(signal.joined_id):
                    connection.close(close_codes.GOING_AWAY)
        if isinstance(signal, LoginsRevoked):
            for login in signal.auth_session_ids:
                self.close_revoked(self._logins.get(login, ()))

    def close_revoked(self, connections: Iterable[Connection]) -> None:
        """Close sockets whose auth session has ended. Mitras' pairing sockets are sent the reason first."""
        waiting = []
        for connection in tuple(connections):
            actor = connection.actor
            assert actor is not None
            if connection.leaving:
                continue
            if connection.path == "pairing" and actor.user_type is UserType.MITRA and connection.listens:
                connection.leaving = True
                waiting.append(connection)
            else:
                connection.close(close_codes.REVOKED)
        if waiting:
            self.spawn(self._close_with_last_word(waiting))

    async def _close_with_last_word(self, connections: list[Connection]) -> None:
        """Send the reason, then close.

        It is read from the database, because the bus may bring it after the end of the auth session, or never.
        """
        recipients = list({connection.actor.user_id for connection in connections if connection.actor is not None})
        try:
            async with asyncio.timeout(LAST_WORD_S):
                for unacknowledged in (await delivery.unacknowledged(self.runtime, recipients)).values():
                    for notice in unacknowledged:
                        if notice.event == LAST_WORD:
                            self.notify(notice)
        except (Unavailable, *TRANSIENT_ERRORS):
            log.warning("closing websockets of ended auth sessions without the reason")
        finally:
            for connection in connections:
                connection.close(close_codes.REVOKED)

    def on_new_epoch(self) -> None:
        """Forget all chat progress and close every socket.

        The database may have lost messages that were sent over them. Until its portion is closed, a socket neither
        sends nor handles frames, because its client's state is from the lost history. The clients reconnect within some
        seconds and see the new epoch.
        """
        self.feeds.clear()
        self.unsynced.clear()
        self.sent_events.clear()
        for connection in self.connections:
            connection.muted = True
        self.spawn(self._close_muted())

    async def _close_muted(self) -> None:
        for connection in await self.close_in_portions(close_codes.GOING_AWAY, real_sleep):
            connection.close(close_codes.GOING_AWAY)

    def drop_lost(self, feed: Feed) -> None:
        """Forget a session of which more messages were sent than the database has, and close its parties' sockets."""
        log.warning("the database has lost messages", session_id=feed.id, sent=feed.sent)
        del self.feeds[feed.id]
        for party in (feed.customer_id, feed.mitra_id):
            for connection in self.here("chat", party):
                connection.close(close_codes.GOING_AWAY)

    def close_all(self, code: int) -> None:
        """Close every socket."""
        for connection in list(self.connections):
            connection.close(code)

    async def close_in_portions(self, code: int, pause: Callable[[float], Awaitable[object]]) -> list[Connection]:
        """Close the present sockets in portions, and return the last portion for the caller to close.

        `pause` waits for the given real seconds between two portions. If it returns True, all remaining sockets are
        returned at once.
        """
        waiting = list(self.connections)
        size = max(PORTION, math.ceil(len(waiting) / PORTIONS))
        while len(waiting) > size:
            portion, waiting = waiting[:size], waiting[size:]
            for connection in portion:
                connection.close(code)
            if await pause(PORTION_EVERY_S) is True:
                break
        return waiting

    async def settled(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for the background tasks, which include closes under way."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)
