"""The queue of messages and read markers that are to be stored, by session (hot path).

A session is in one batch at a time. Messages that arrive for it during that batch wait for its end, so a session's
messages keep their order. Other sessions are not held up, even if another transaction locks this one.
"""

import math
from collections import OrderedDict
from itertools import zip_longest

import attrs

from core.base import ids
from core.base.languages import Text
from core.sessions.messages.rules import Draft, Marker, check_message
from realtime.connection import Connection
from realtime.feeds import Feed
from realtime.frames import SendMessage

BATCH_ROWS = 500  # bounds the time one transaction holds its locks
BATCH_MARKED = 100  # sessions in a batch that have read markers but no messages
QUEUE_ROWS = 20_000  # a full queue refuses messages at once, instead of answering them late
# A read marker is written with the session's next message, or alone after this delay, so most markers cost no extra
# write. The delay is per session: flushing all at once would make a long batch and hold up the messages behind it.
MARK_WAITS_S = 0.1
MARK_EARLY_S = 0.01  # a marker this close to its time is due
# Markers that are due this soon go with one that is due, and the batches between have messages alone, which cost less.
MARKS_TOGETHER_S = 0.05
PERHAPS_NOT_STORED = Text(
    en="The message may not have been stored. Send it again.",
    id="Pesan ini mungkin belum tersimpan. Silakan kirim lagi.",
)

Moved = dict[Marker, tuple[int, str]]  # read marker -> (seq, id of the connection that sent the marker)


@attrs.define(slots=True)
class Item:
    """A message that is to be stored."""

    draft: Draft
    connection: Connection
    feed: Feed
    ref: str | None

    @classmethod
    def of(cls, connection: Connection, feed: Feed, party: str, frame: SendMessage) -> "Item":
        """Return the message of a frame.

        Raises ValidationFailed if PostgreSQL could refuse it, because it would fail its whole batch.
        """
        metadata = check_message(message_type=frame.message_type, content=frame.content, metadata=frame.metadata)
        draft = Draft(
            id=ids.new_id(),
            session_id=feed.id,
            sender_id=party,
            client_message_id=frame.client_message_id.lower(),
            type=frame.message_type,
            content=frame.content,
            metadata=metadata,
        )
        return cls(draft, connection, feed, frame.ref)

    def ask_again(self, code: str) -> None:
        """Ask the client to send the message again; it may have been stored."""
        self.connection.error(code, PERHAPS_NOT_STORED, self.ref, retry_after_seconds=1)


@attrs.define(slots=True, eq=False)
class SessionQueue:
    """The pending messages and read markers of one session.

    The hub may replace its feed by a new one while they wait.
    """

    feed: Feed
    items: list[Item]
    moved: Moved
    due: float = math.inf  # loop time at which its read markers are written without a message


@attrs.frozen(slots=True, eq=False)
class Batch:
    """The messages and read markers of one transaction."""

    session_ids: list[str]
    items: list[Item]
    marked: list[tuple[Feed, Moved]]


class MessageQueue:
    """Messages and read markers of this process that are not stored yet. Times are the event loop's, in seconds."""

    def __init__(self) -> None:
        self.ready = 0  # messages that the next batch could take: those of sessions that are in no batch
        self._waiting = 0
        self._lines: dict[str, SessionQueue] = {}
        # Those with messages that the next batch could take, and those with read markers alone, by due time.
        self._talking: OrderedDict[str, SessionQueue] = OrderedDict()
        self._marked: OrderedDict[str, SessionQueue] = OrderedDict()
        self._under_way: dict[str, list[Item]] = {}

    @property
    def idle(self) -> bool:
        """Return whether nothing is queued and no batch is being stored."""
        return not (self._lines or self._under_way)

    @property
    def due(self) -> float:
        """Return the loop time at which the next read markers are due without a message; infinity if there are none."""
        return next(iter(self._marked.values())).due if self._marked else math.inf

    def under_way(self, feed: Feed) -> set[str]:
        """Return the ids of a session's messages that are in a batch now."""
        return {item.draft.id for item in self._under_way.get(feed.id, ())}

    def _line(self, feed: Feed) -> SessionQueue:
        line = self._lines.get(feed.id)
        if line is None:
            line = self._lines[feed.id] = SessionQueue(feed, [], {})
        return line

    def add(self, item: Item) -> bool:
        """Queue a message. Return False if the queue is full."""
        if self._waiting >= QUEUE_ROWS:
            return False
        self._waiting += 1
        session_id = item.feed.id
        line = self._line(item.feed)
        line.items.append(item)
        if session_id not in self._under_way:
            self.ready += 1
            if len(line.items) == 1:
                self._marked.pop(session_id, None)
                self._talking[session_id] = line
        return True

    def mark(self, feed: Feed, moved: Moved, now: float) -> None:
        """Queue read markers; the highest seq of each is kept."""
        line = self._line(feed)
        for marker, mark in moved.items():
            if marker not in line.moved or mark[0] > line.moved[marker][0]:
                line.moved[marker] = mark
        if not line.items and feed.id not in self._under_way and feed.id not in self._marked:
            self._wait(line, now)

    def _wait(self, line: SessionQueue, now: float) -> None:
        line.due = now + MARK_WAITS_S
        self._marked[line.feed.id] = line

    def cut(self, now: float) -> Batch:
        """Take the next batch off the queue.

        A message whose `client_message_id` repeats an earlier one waits for the batch after, which finds the first one
        stored.
        """
        batch = Batch([], [], [])
        room, taken = BATCH_ROWS, []
        while self._talking and room > 0:
            _, line = self._talking.popitem(last=False)
            self.ready -= len(line.items)
            items = _without_repeats(line.items[:room])
            room -= len(items)
            taken.append(items)
            self._take(batch, line, items)
        # Interleave sessions, so that no heap page holds only one session's rows and HOT updates still fit when all
        # of them are marked read.
        batch.items.extend(item for turn in zip_longest(*taken) for item in turn if item is not None)
        alone, until = 0, now + (MARKS_TOGETHER_S if self.due <= now + MARK_EARLY_S else 0.0)
        while self.due <= until and alone < BATCH_MARKED:
            _, line = self._marked.popitem(last=False)
            self._take(batch, line, [])
            alone += 1
        return batch

    def _take(self, batch: Batch, line: SessionQueue, items: list[Item]) -> None:
        session_id = line.feed.id
        batch.session_ids.append(session_id)
        if line.moved:
            batch.marked.append((line.feed, line.moved))
        self._waiting -= len(items)
        self._under_way[session_id] = items
        if len(items) < len(line.items):
            line.items, line.moved = line.items[len(items) :], {}
        else:
            del self._lines[session_id]

    def finish(self, batch: Batch, now: float) -> None:
        """Make the sessions of a batch available again, after it was stored or failed."""
        for session_id in batch.session_ids:
            del self._under_way[session_id]
            line = self._lines.get(session_id)
            if line is None:
                continue
            if line.items:
                self.ready += len(line.items)
                self._talking[session_id] = line
            else:
                self._wait(line, now)


def _without_repeats(items: list[Item]) -> list[Item]:
    """Return the messages before the first one that repeats its sender's `client_message_id`."""
    if len({item.draft.client_message_id for item in items}) == len(items):
        return items
    seen: set[tuple[str, str]] = set()
    for place, item in enumerate(items):
        key = (item.draft.sender_id, item.draft.client_message_id)
        if key in seen:
            return items[:place]
        seen.add(key)
    return items
