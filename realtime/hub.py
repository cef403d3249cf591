"""Who is connected to this process, and the order in which they are told things.

How this works: a session that somebody here takes part in has a Feed. Messages reach it from this process's own batches
and over the bus from others, perhaps late, twice or never. The feed hands them on strictly by seq: what comes early is
held, what is missing is read from the database, what came before is dropped. So a socket sees 1, 2, 3 … whatever the bus
does. Everything else is a notice with an event id; each process sends each event once to each of its sockets.
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
from core.events import notices as wire
from core.events.notices import Envelope, Notice, Passing, StoredMessage
from core.events.signals import AccountJoined, LoginsRevoked, Signal
from core.flows import delivery
from core.reads import chats
from core.reads.chats import Place
from core.runtime import AWAY, Runtime
from realtime import close_codes
from realtime.budgets import Budgets
from realtime.connection import Connection

SOCKETS_A_USER = 8  # contract 7: a user, path and process
HOLD_S = 0.2  # how long the bus may take to fill a hole before the database is asked; two busy processes take 0.1
AGAIN_S = 0.25  # until the database is asked again, when it did not help
PAGE = 200
STRANGE_COST = 19  # more than an ordinary frame, for one that names another user's session or none
REMEMBER_EVENTS = 50_000
REMEMBER_ENDS = 10_000  # of searches
# Clients whose sockets close together also come back together: so each portion has time to do so. There are more sockets in a
# portion when there are very many, so that all are closed within 10 s.
PORTION = 500
PORTION_EVERY_S = 0.25
PORTIONS = 40
LAST_WORD = "mitra_status_changed"  # why a mitra's sockets close
LAST_WORD_S = 0.4  # for reading it; a socket of an ended auth session closes within a second
PAIRING_EVENTS = frozenset({"pairing_status", "chat_request", "chat_request_closed", "payment_updated", LAST_WORD})

log = logs.get("hub")
encode = msgspec.json.encode


class Person(msgspec.Struct):
    """A party, as a session's view shows it."""

    id: str


class Session(msgspec.Struct):
    """What a feed needs of a session's view."""

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
    """One session's place in this process."""

    __slots__ = ("customer_id", "filled", "held", "id", "last_seq", "marks", "mitra_id", "reading", "sent")

    def __init__(self, session_id: str, customer_id: str, mitra_id: str) -> None:
        self.id = session_id
        self.customer_id = customer_id
        self.mitra_id = mitra_id
        self.sent = 0  # every seq up to here has been handed to the sockets here
        self.last_seq = 0  # the highest seq known to be committed
        self.held: dict[int, StoredMessage] = {}
        self.reading = False
        self.marks = [0, 0, 0, 0]  # customer delivered, customer read, mitra delivered, mitra read
        self.filled = 0  # single messages are final up to here

    def party(self, connection: Connection) -> str | None:
        """The id under which a connection's user takes part; None for strangers."""
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
        self._chatting = self.users["chat"]
        self._logins: dict[str, set[Connection]] = {}  # by auth session
        self.feeds: dict[str, Feed] = {}
        self.sent_events: OrderedDict[str, None] = OrderedDict()
        self.ended_searches: OrderedDict[str, None] = OrderedDict()
        self.unfilled: set[Feed] = set()
        # Ids of messages that this process is about to hand on by itself.
        self.committing: Callable[[Feed], set[str]] = lambda _feed: set()
        self.crossed_at = -math.inf  # when another process last stored a message of a session here, on the loop's clock
        self._dirty: set[Connection] = set()
        self._flushing = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.get_running_loop()

    # -- small things

    def server_time(self) -> str:
        """The service time, as frames carry it."""
        return as_text(self.runtime.now())

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something beside."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def wake(self, connection: Connection) -> None:
        """Write this connection's frames when the loop comes round."""
        self._dirty.add(connection)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write the frames of all connections."""
        self._flushing = False
        dirty, self._dirty = self._dirty, set()
        for connection in dirty:
            try:
                connection.flush()
            except Exception:  # a broken socket must not stop the others
                log.exception("a socket could not be written")
                connection.transport.abort()

    # -- who is here

    def register(self, connection: Connection) -> None:
        """Subscribe an authenticated connection; the oldest goes when there are too many."""
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
        """Forget a connection, and the sessions that nobody here takes part in any more."""
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
        """Stop counting a connection to its auth session: it is gone, or goes on with another one."""
        assert connection.actor is not None
        login = connection.actor.auth_session_id
        mine = self._logins.get(login)
        if mine is not None:
            mine.discard(connection)
            if not mine:
                del self._logins[login]

    def here(self, path: str, user_id: str) -> Iterable[Connection]:
        """A user's connections in this process."""
        mine = self.users[path].get(user_id)
        return tuple(mine.values()) if mine else ()

    def of_user(self, user_id: str) -> Iterable[Connection]:
        """A user's connections in this process, on either path."""
        return (*self.here("chat", user_id), *self.here("pairing", user_id))

    def drop_idle_feeds(self) -> None:
        """Forget sessions of which neither party is here."""
        for feed in list(self.feeds.values()):
            if feed.customer_id not in self._chatting and feed.mitra_id not in self._chatting:
                del self.feeds[feed.id]

    # -- sessions

    def remember(self, place: Place) -> Feed:
        """Return the session's feed; a new one begins where the database is now, or where those who are here begin."""
        feed = self.feeds.get(place.id)
        if feed is None:
            feed = self.feeds[place.id] = Feed(place.id, place.customer_id, place.mitra_id)
            # It is in no snapshot of a party who is here already: it began after that, and nobody told us.
            parties = (place.customer_id, place.mitra_id)
            unseen = any(connection.listens for party in parties for connection in self.here("chat", party))
            feed.sent = 0 if unseen and place.status == "active" else place.last_seq
            feed.marks = [
                place.customer_delivered_seq, place.customer_read_seq, place.mitra_delivered_seq, place.mitra_read_seq,
            ]  # fmt: skip
        feed.last_seq = max(feed.last_seq, place.last_seq)
        return feed

    async def feed_of(self, connection: Connection, session_id: str) -> Feed | None:
        """Return the feed of a session of this connection's user; None for other people's, which costs the user more."""
        feed = self.feeds.get(session_id)
        budget, actor = connection.budget, connection.actor
        if budget is None or actor is None:
            return None
        if feed is None and not budget.is_strange(session_id, monotonic()):
            places = await chats.places(self.runtime, [session_id])
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

    # -- telling

    def local(self, envelope: Envelope) -> None:
        """Take news of this process's own commits, without the way over the bus."""
        self.take(envelope)

    def heard(self, _channel: str, data: bytes) -> None:
        """Take news off the bus; our own have been handed on already, and are not heard again."""
        envelope = wire.decode(data)
        if any(message.session_id in self.feeds for message in envelope.messages):
            self.crossed_at = self._loop.time()
        self.take(envelope)

    def take(self, envelope: Envelope) -> None:
        """Hand news to the sockets here."""
        for message in envelope.messages:
            self.deliver(message)
        for passing in envelope.passing:
            self.pass_on(passing)
        for notice in envelope.notices:
            self.notify(notice)

    def notify(self, notice: Notice) -> None:
        """Send an event to its recipient's sockets here, unless that was done before."""
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
        frame = self._event_frame(notice)
        for connection in tuple(mine.values()):
            connection.put(frame)

    def _begin(self, notice: Notice) -> None:
        """Open the feed of a session that began while a party was here: without it nobody would look for a lost message."""
        session = msgspec.json.decode(notice.payload, type=Started).session
        if session.id not in self.feeds:
            self.feeds[session.id] = Feed(session.id, session.customer.id, session.mitra.id)

    def _note_end(self, notice: Notice) -> None:
        """Remember that a customer here was sent the end of a search: a repeat of its status may still be on its way."""
        if notice.event != "pairing_status" or notice.session_id is None:
            return
        if msgspec.json.decode(notice.payload, type=SearchStatus).status != "searching":
            self.ended_searches[notice.session_id] = None
            if len(self.ended_searches) > REMEMBER_ENDS:
                self.ended_searches.popitem(last=False)

    def repeated(self, connection: Connection, unheard: list[Notice]) -> list[bytes]:
        """The frames of events that no device has acknowledged yet, for a connection that has just come (back)."""
        is_pairing = connection.path == "pairing"
        mine = [notice for notice in unheard if (notice.event in PAIRING_EVENTS) == is_pairing]
        for notice in mine:
            self._note_end(notice)
        return [self._event_frame(notice) for notice in mine]

    def _event_frame(self, notice: Notice) -> bytes:
        tail = f',"event_id":"{notice.event_id}","server_time":"{self.server_time()}"}}'
        return (notice.payload[:-1] + tail).encode()

    def pass_on(self, passing: Passing) -> None:
        """Send a frame that is not stored."""
        mine = self.users[passing.path].get(passing.recipient_id)
        if mine and passing.search_id not in self.ended_searches:
            for connection in tuple(mine.values()):
                if connection.id != passing.skip:
                    connection.put(passing.frame)

    def deliver(self, message: StoredMessage) -> None:
        """Hand a committed message on, in its turn."""
        feed = self.feeds.get(message.session_id)
        if feed is None:
            # A connection that still waits for its snapshot finds the message there.
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
            self.fill_hole(feed)

    def _send(self, feed: Feed, message: StoredMessage) -> None:
        feed.sent = message.seq
        for party in (message.customer_id, message.mitra_id):
            mine = self._chatting.get(party)
            if mine:
                for connection in mine.values():
                    if connection.id != message.skip:
                        connection.put(message.frame)

    def fill_hole(self, feed: Feed) -> None:
        """Read what is missing from the database, unless the bus brings it first."""
        if not feed.reading:
            feed.reading = True
            self.spawn(self._fill_hole(feed))

    async def _fill_hole(self, feed: Feed) -> None:
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
        """Hand on what is stored behind `sent`, as far as it goes."""
        with contextlib.suppress(*AWAY):
            while True:
                views = await chats.messages_after(self.runtime, feed.id, after=feed.sent, limit=PAGE)
                if self.feeds.get(feed.id) is not feed:  # dropped meanwhile: who has come back has a snapshot
                    return
                soon = self.committing(feed)  # their senders get an ack, and not their own words
                for view in views:
                    if view.seq == feed.sent + 1 and view.id not in soon:
                        held = feed.held.pop(view.seq, None)
                        self._send(feed, held or self._stored(feed, view))
                if len(views) < PAGE or feed.sent != views[-1].seq:
                    return

    def _stored(self, feed: Feed, view: chats.MessageView) -> StoredMessage:
        frame = encode({"type": "message", "event_id": view.id, "server_time": self.server_time(), "message": view})
        return StoredMessage(
            session_id=feed.id,
            customer_id=feed.customer_id,
            mitra_id=feed.mitra_id,
            seq=view.seq,
            frame=frame,
        )

    # -- revocation

    def on_signal(self, signal: Signal) -> None:
        """Close the sockets of auth sessions that ended, and those of an account that has grown.

        The latter come back and find in their snapshot what the anonymous customer has brought.
        """
        if isinstance(signal, AccountJoined):
            for connection in self.of_user(signal.customer_id):
                if connection.actor is not None and not connection.actor.owns(signal.joined_id):
                    connection.close(close_codes.GOING_AWAY)
        if isinstance(signal, LoginsRevoked):
            for login in signal.auth_session_ids:
                self.close_revoked(self._logins.get(login, ()))

    def close_revoked(self, connections: Iterable[Connection]) -> None:
        """Close sockets whose auth session has ended; those that show a mitra's status are sent the reason first."""
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
        """Read the reason from the database: the bus may bring it after the news of the end, or not at all."""
        recipients = list({connection.actor.user_id for connection in connections if connection.actor is not None})
        try:
            async with asyncio.timeout(LAST_WORD_S):
                for unheard in (await delivery.unheard(self.runtime, recipients)).values():
                    for notice in unheard:
                        if notice.event == LAST_WORD:
                            self.notify(notice)
        except (Unavailable, *AWAY):
            log.warning("sockets of ended auth sessions close without their reason")
        finally:
            for connection in connections:
                connection.close(close_codes.REVOKED)

    def on_new_epoch(self) -> None:
        """Forget where the chats have got, and close every socket: the database may have lost what was sent over them.

        Sockets that must wait for their portion carry nothing until then: their clients count from the lost history. The
        clients come back within some seconds, and see the new epoch.
        """
        self.feeds.clear()
        self.unfilled.clear()
        self.sent_events.clear()
        for connection in self.connections:
            connection.muted = True
        self.spawn(self._close_muted())

    async def _close_muted(self) -> None:
        for connection in await self.close_in_portions(close_codes.GOING_AWAY, real_sleep):
            connection.close(close_codes.GOING_AWAY)

    def drop_lost(self, feed: Feed) -> None:
        """Forget a session whose messages here are more than the database has, and close its parties' sockets."""
        log.warning("messages are lost", session_id=feed.id, sent=feed.sent)
        del self.feeds[feed.id]
        for party in (feed.customer_id, feed.mitra_id):
            for connection in self.here("chat", party):
                connection.close(close_codes.GOING_AWAY)

    def close_all(self, code: int) -> None:
        """Close every socket."""
        for connection in list(self.connections):
            connection.close(code)

    async def close_in_portions(self, code: int, pause: Callable[[float], Awaitable[object]]) -> list[Connection]:
        """Close the sockets of this moment in portions, and return the last portion for the caller to close.

        `pause` waits for some real seconds between two portions. It returns True when all others are to close at once.
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
        """Wait until the closes that are under way have ended."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)
