"""The order of each session's messages on their way to the sockets of this process.

Each session with a party connected here has a Feed. Messages reach it from this process's own batches, and from other
processes over the bus: perhaps late, twice or never. The feed sends them strictly by seq. It holds messages that come
early, reads missing ones from the database, and drops those that it has sent before. So a socket gets 1, 2, 3 …
whatever the bus loses.
"""

import asyncio
import contextlib
import datetime as dt
import math
from collections.abc import Callable, Iterable

from core.base import logs
from core.base.actor import UserType
from core.base.clock import real_sleep
from core.events.notices import FramedMessage, ReadMarkerMoved, StoredMessage
from core.messages.rules import Marker, ReadMarkers
from core.reads import chats
from core.reads.chats import ChatProgress
from core.runtime import Runtime
from core.transactions import TRANSIENT_ERRORS
from realtime import close_codes, outgoing
from realtime.connection import Connection
from realtime.connections import Connections

HOLD_S = 0.2  # wait for a missing message on the bus before reading the database; two busy processes take 0.1
AGAIN_S = 0.25  # until the next read, if the last one did not find it
PAGE = 200

log = logs.get("feeds")
Message = StoredMessage | FramedMessage


class Feed:
    """The progress of one session's chat in this process."""

    __slots__ = (
        "customer_id", "held", "id", "last_seq", "mitra_id", "read_markers", "reading", "sent", "synced_up_to",
    )  # fmt: skip

    def __init__(self, session_id: str, customer_id: str, mitra_id: str) -> None:
        self.id = session_id
        self.customer_id = customer_id
        self.mitra_id = mitra_id
        self.sent = 0  # every seq up to this one has been sent to the sockets here
        self.last_seq = 0  # the highest seq known to be committed
        self.held: dict[int, Message] = {}
        self.reading = False
        self.read_markers = ReadMarkers()
        self.synced_up_to = 0  # up to this seq, the status columns of single messages are final

    @property
    def parties(self) -> tuple[str, str]:
        """The ids of the customer and the mitra."""
        return self.customer_id, self.mitra_id

    def party(self, connection: Connection) -> str | None:
        """Return the id under which the connection's user is a party of the session; None if they aren't one."""
        actor = connection.actor
        if actor is None:
            return None
        party = self.mitra_id if actor.user_type is UserType.MITRA else self.customer_id
        return party if actor.owns(party) else None

    def moved(self, marker: Marker, seq: int, *, at: dt.datetime, skip: str | None = None) -> ReadMarkerMoved:
        """Return the publication of a marker that moved to `seq`. `skip` is the connection that sent it."""
        return ReadMarkerMoved(
            session_id=self.id,
            customer_id=self.customer_id,
            mitra_id=self.mitra_id,
            reader=marker.reader,
            status=marker.status,
            up_to=seq,
            at=at,
            skip=skip,
        )

    def note_committed(self, seq: int) -> None:
        """Record that all messages up to `seq` are committed."""
        if seq > self.last_seq:
            self.last_seq = seq


class Feeds:
    """The feeds of this process.

    `committing` returns the ids of a feed's messages that this process is committing now, and sends after the commit.
    """

    def __init__(self, runtime: Runtime, connections: Connections, *, committing: Callable[[Feed], set[str]]) -> None:
        self._runtime = runtime
        self._connections = connections
        self._committing = committing
        self._feeds: dict[str, Feed] = {}
        self._loop = asyncio.get_running_loop()
        self._crossed_at = -math.inf  # loop time at which another process last sent a message of a feed

    # -- which feeds there are

    def get(self, session_id: str) -> Feed | None:
        """Return the session's feed, or None if it has none."""
        return self._feeds.get(session_id)

    def part(self, number: int, *, of: int) -> dict[str, Feed]:
        """Return part `number` (from 0) of all feeds, by session id. Each feed is in one of the `of` parts."""
        return {feed.id: feed for feed in self._feeds.values() if hash(feed.id) % of == number}

    def begin(self, session_id: str, customer_id: str, mitra_id: str) -> Feed:
        """Return the session's feed; a new one starts at 0, so missing messages are read from the database."""
        feed = self._feeds.get(session_id)
        if feed is None:
            feed = self._feeds[session_id] = Feed(session_id, customer_id, mitra_id)
        return feed

    def remember(self, progress: ChatProgress) -> Feed:
        """Return the session's feed.

        A new feed starts at the session's last seq, or at 0 if a connected party missed the start of the session.
        """
        feed = self._feeds.get(progress.id)
        if feed is None:
            feed = self.begin(progress.id, progress.customer_id, progress.mitra_id)
            # A party connected here has no feed for it: the session started after the party's snapshot and no event
            # reached us, so the feed starts at 0.
            unseen = self._connections.any_listening(feed.parties)
            feed.sent = 0 if unseen and progress.status == "active" else progress.last_seq
            feed.read_markers = progress.read_markers
        feed.note_committed(progress.last_seq)
        return feed

    def drop_idle(self) -> None:
        """Forget the feeds of sessions without a connected party."""
        for feed in list(self._feeds.values()):
            if not (self._connections.is_chatting(feed.customer_id) or self._connections.is_chatting(feed.mitra_id)):
                del self._feeds[feed.id]

    def drop_lost(self, feed: Feed) -> None:
        """Forget a session of which more messages were sent than the database has, and close its parties' sockets."""
        log.warning("the database has lost messages", session_id=feed.id, sent=feed.sent)
        del self._feeds[feed.id]
        for party in feed.parties:
            for connection in self._connections.of("chat", party):
                connection.close(close_codes.GOING_AWAY)

    def clear(self) -> None:
        """Forget all feeds."""
        self._feeds.clear()

    # -- other processes

    def note_crossing(self, messages: Iterable[Message]) -> None:
        """Record that another process has sent these messages; those without a feed here don't count."""
        if any(message.session_id in self._feeds for message in messages):
            self._crossed_at = self._loop.time()

    def crossed_within(self, seconds: float) -> bool:
        """Return whether another process has sent a message of a session with a feed here lately."""
        return self._loop.time() < self._crossed_at + seconds

    # -- order

    def deliver(self, message: Message) -> None:
        """Send a committed message in the order of seq; hold it while earlier ones are missing."""
        feed = self._feeds.get(message.session_id)
        if feed is None:
            # A connection without a snapshot yet will find the message in it.
            if not self._connections.any_listening((message.customer_id, message.mitra_id)):
                return
            feed = self.begin(message.session_id, message.customer_id, message.mitra_id)
        feed.note_committed(message.seq)
        if message.seq == feed.sent + 1:
            self._send(feed, message)
            while feed.held and feed.sent + 1 in feed.held:
                self._send(feed, feed.held.pop(feed.sent + 1))
        elif message.seq > feed.sent:
            feed.held[message.seq] = message
            self._load_missing(feed)

    def _send(self, feed: Feed, message: Message) -> None:
        frame = message.frame if isinstance(message, FramedMessage) else outgoing.message(message)
        self._send_frame(feed, message.seq, frame, skip=message.skip)

    def _send_frame(self, feed: Feed, seq: int, frame: bytes, *, skip: str | None = None) -> None:
        feed.sent = seq
        self._connections.put("chat", feed.customer_id, frame, skip=skip)
        self._connections.put("chat", feed.mitra_id, frame, skip=skip)

    # -- missing messages

    def catch_up(self, feed: Feed, progress: ChatProgress) -> list[Marker]:
        """Compare a feed with the database: send missing messages, and forget the feed of a completed session.

        Returns the read markers that moved without this process hearing of it.
        """
        feed.note_committed(progress.last_seq)
        if progress.status == "completed" and feed.sent >= feed.last_seq:
            del self._feeds[feed.id]  # completed sessions get no more messages
            return []
        if feed.sent < progress.last_seq:
            self._load_missing(feed)
        stored = progress.read_markers
        return [marker for marker in Marker if feed.read_markers.move(marker, stored.of(marker))]

    def _load_missing(self, feed: Feed) -> None:
        """Read missing messages from the database, unless the bus brings them first."""
        if not feed.reading:
            feed.reading = True
            self._connections.spawn(self._load(feed))

    async def _load(self, feed: Feed) -> None:
        try:
            while feed.sent < feed.last_seq:
                behind = feed.sent
                await real_sleep(HOLD_S)
                if feed.sent == behind:
                    await self._read_on(feed)
                if feed.sent == behind:
                    await real_sleep(AGAIN_S)
                if self._feeds.get(feed.id) is not feed:
                    return
            feed.held = {seq: held for seq, held in feed.held.items() if seq > feed.sent}
        finally:
            feed.reading = False

    async def _read_on(self, feed: Feed) -> None:
        """Send the stored messages after `sent`, up to the first gap."""
        with contextlib.suppress(*TRANSIENT_ERRORS):
            while True:
                views = await chats.messages_after(self._runtime, feed.id, after=feed.sent, limit=PAGE)
                if self._feeds.get(feed.id) is not feed:  # dropped since; a party who reconnected has a snapshot
                    return
                self._send_stored(feed, views)
                if len(views) < PAGE or feed.sent != views[-1].seq:
                    return

    def _send_stored(self, feed: Feed, views: list[chats.MessageView]) -> None:
        soon = self._committing(feed)  # sent after the commit, and not to the sender's own socket
        for view in views:
            if view.seq == feed.sent + 1 and view.id not in soon:
                held = feed.held.pop(view.seq, None)
                if held is not None:
                    self._send(feed, held)
                else:
                    frame = outgoing.message_read_back(view, server_time=self._connections.server_time())
                    self._send_frame(feed, view.seq, frame)
