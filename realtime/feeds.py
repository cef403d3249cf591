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

from core.base.actor import UserType
from core.base.batch_loader import BatchLoader
from core.base.clock import real_sleep
from core.base.errors import Unavailable
from core.bus import channels
from core.bus.subscription import Subscription
from core.events.notices import ReadMarkerMoved, StoredMessage
from core.runtime.container import Runtime
from core.sessions.messages import chats
from core.sessions.messages.chats import ChatProgress
from core.sessions.messages.rules import Marker, ReadMarkers
from core.telemetry import logs
from realtime import close_codes, outgoing
from realtime.connection import Connection
from realtime.connections import Connections

HOLD_S = 0.2  # wait for a missing message on the bus before reading the database; two busy processes take 0.1
AGAIN_S = 0.25  # until the next read, if the last one did not find it
PAGE = 200
# Into which all feeds are split for the comparison with the database (realtime/watch.py). Only the feeds that differ
# are read, so the comparison of thousands delays no frame.
PARTS = 10

log = logs.get("feeds")


class Feed:
    """The progress of one session's chat in this process."""

    __slots__ = (
        "customer_id",
        "held",
        "id",
        "last_seq",
        "mitra_id",
        "read_markers",
        "reading",
        "sent",
        "synced_up_to",
    )

    def __init__(self, session_id: str, customer_id: str, mitra_id: str) -> None:
        self.id = session_id
        self.customer_id = customer_id
        self.mitra_id = mitra_id
        self.sent = 0  # every seq up to this one has been sent to the sockets here
        self.last_seq = 0  # the highest seq known to be committed
        self.held: dict[int, StoredMessage] = {}
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

    def __init__(
        self,
        runtime: Runtime,
        connections: Connections,
        heard: Subscription,
        *,
        committing: Callable[[Feed], set[str]],
    ) -> None:
        self._runtime = runtime
        self._connections = connections
        self._heard = heard
        self._committing = committing
        self._feeds: dict[str, Feed] = {}
        self._parts: list[dict[str, Feed]] = [{} for _ in range(PARTS)]  # the same feeds
        self._progress: BatchLoader[ChatProgress | None] = BatchLoader(self._read_progress, nothing=None)
        self._loop = asyncio.get_running_loop()
        self._crossed_at = -math.inf  # loop time at which another process last sent a message of a feed

    # -- which feeds there are

    def get(self, session_id: str) -> Feed | None:
        """Return the session's feed, or None if it has none."""
        return self._feeds.get(session_id)

    def part(self, number: int) -> dict[str, Feed]:
        """Return one of the PARTS of all feeds, by session id. Forget those of sessions without a connected party."""
        part = self._parts[number]
        for feed in list(part.values()):
            if not (self._connections.is_chatting(feed.customer_id) or self._connections.is_chatting(feed.mitra_id)):
                self._drop(feed)
        return dict(part)

    def begin(self, session_id: str, customer_id: str, mitra_id: str) -> Feed:
        """Return the session's feed; a new one starts at 0, so missing messages are read from the database."""
        feed = self._feeds.get(session_id)
        if feed is None:
            feed = self._open(session_id, customer_id, mitra_id)
            self._connections.spawn(self._find_earlier(feed))
        return feed

    def _open(self, session_id: str, customer_id: str, mitra_id: str) -> Feed:
        feed = self._feeds[session_id] = Feed(session_id, customer_id, mitra_id)
        self._parts[hash(session_id) % PARTS][session_id] = feed
        self._heard.add([channels.of_session(session_id)])
        return feed

    async def _read_progress(self, session_ids: list[str]) -> dict[str, ChatProgress | None]:
        return {found.id: found for found in await chats.progress_of_sessions(self._runtime, session_ids)}

    async def _find_earlier(self, feed: Feed) -> None:
        """Look for messages that other processes published before this one listened to a new session."""
        await self._heard.confirmed([channels.of_session(feed.id)])
        with contextlib.suppress(Unavailable):
            found = await self._progress.of(feed.id)
            if found is not None and self._feeds.get(feed.id) is feed:
                feed.note_committed(found.last_seq)
                if feed.sent < feed.last_seq:
                    self._load_missing(feed)

    def remember(self, progress: ChatProgress) -> Feed:
        """Return the session's feed.

        A new feed starts at the session's last seq, or at 0 if a connected party missed the start of the session.
        """
        feed = self._feeds.get(progress.id)
        if feed is None:
            feed = self._open(progress.id, progress.customer_id, progress.mitra_id)
            # A party connected here has no feed for it: the session started after the party's snapshot and no event
            # reached us, so the feed starts at 0.
            unseen = self._connections.any_listening(feed.parties)
            feed.sent = 0 if unseen and progress.status == "active" else progress.last_seq
            feed.read_markers = progress.read_markers
        feed.note_committed(progress.last_seq)
        return feed

    def drop_lost(self, feed: Feed) -> None:
        """Forget a session of which more messages were sent than the database has, and close its parties' sockets."""
        log.warning("the database has lost messages", session_id=feed.id, sent=feed.sent)
        self._drop(feed)
        for party in feed.parties:
            for connection in self._connections.of("chat", party):
                connection.close(close_codes.GOING_AWAY)

    def clear(self) -> None:
        """Forget all feeds."""
        self._heard.remove([channels.of_session(session_id) for session_id in self._feeds])
        self._feeds.clear()
        for part in self._parts:
            part.clear()

    def _drop(self, feed: Feed) -> None:
        del self._feeds[feed.id]
        del self._parts[hash(feed.id) % PARTS][feed.id]
        self._heard.remove([channels.of_session(feed.id)])

    # -- other processes

    def note_crossing(self, messages: Iterable[StoredMessage]) -> None:
        """Record that another process has sent these messages; those without a feed here don't count."""
        if any(message.session_id in self._feeds for message in messages):
            self._crossed_at = self._loop.time()

    def crossed_within(self, seconds: float) -> bool:
        """Return whether another process has sent a message of a session with a feed here lately."""
        return self._loop.time() < self._crossed_at + seconds

    # -- order

    def deliver(self, message: StoredMessage) -> None:
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

    def _send(self, feed: Feed, message: StoredMessage) -> None:
        self._send_frame(feed, message.seq, outgoing.message(message), skip=message.skip)

    def _send_frame(self, feed: Feed, seq: int, frame: bytes, *, skip: str | None = None) -> None:
        feed.sent = seq
        feed.note_committed(seq)
        self._connections.put("chat", feed.customer_id, frame, skip=skip)
        self._connections.put("chat", feed.mitra_id, frame, skip=skip)

    # -- missing messages

    def catch_up(self, feed: Feed, progress: ChatProgress) -> list[Marker]:
        """Compare a feed with the database: send missing messages, and forget the feed of a completed session.

        Returns the read markers that moved without this process hearing of it.
        """
        feed.note_committed(progress.last_seq)
        if progress.status == "completed" and feed.sent >= feed.last_seq:
            self._drop(feed)  # completed sessions get no more messages
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
        with contextlib.suppress(Unavailable):
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
