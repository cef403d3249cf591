"""What waits to be stored, by session, and which sessions are with the database (hot path).

How this works: a session is in one batch at a time. What comes for it meanwhile waits until that batch is over, so its
messages keep their order; other sessions go on, even when somebody holds a lock on this one.
"""

import math
from collections import OrderedDict
from itertools import zip_longest

import attrs

from core.messages.rules import Draft
from realtime.connection import Connection
from realtime.hub import Feed

BATCH_ROWS = 500  # bounds the time one transaction holds its locks
BATCH_MARKED = 100  # sessions in it for their marks alone
QUEUE_ROWS = 20_000  # beyond this the client is told at once instead of late
# Marks ride with a message of their session, or wait this long: most need no row version and no write of their own.
# Each at its own time: a hundred milliseconds of marks at once would be a long batch for the messages behind it.
MARK_WAITS_S = 0.1
MARK_EARLY_S = 0.01

Moved = dict[int, tuple[int, str]]  # which marks (see Feed.marks): up to where, and the connection that said so


@attrs.define(slots=True)
class Item:
    """A message on its way to the database."""

    draft: Draft
    connection: Connection
    feed: Feed
    ref: str | None
    sender_type: str


@attrs.define(slots=True, eq=False)
class Line:
    """What waits of one session. Its feed may be dropped and made anew meanwhile."""

    feed: Feed
    items: list[Item]
    moved: Moved
    due: float = math.inf  # when its marks go without a message


@attrs.frozen(slots=True, eq=False)
class Batch:
    """What goes into one transaction."""

    session_ids: list[str]
    items: list[Item]
    marked: list[tuple[Feed, Moved]]


class MessageQueue:
    """The messages and marks of this process that are not stored yet. Times are the event loop's, in seconds."""

    def __init__(self) -> None:
        self.ready = 0  # messages that could go now: those of sessions that are in no batch
        self._waiting = 0
        self._lines: dict[str, Line] = {}
        self._talking: OrderedDict[str, Line] = OrderedDict()  # lines with messages that could go
        self._marked: OrderedDict[str, Line] = OrderedDict()  # lines with marks alone, by their time
        self._under_way: dict[str, list[Item]] = {}

    @property
    def idle(self) -> bool:
        """Whether everything that was handed in has been committed."""
        return not (self._lines or self._under_way)

    @property
    def due(self) -> float:
        """When marks are to go that no message took along."""
        return next(iter(self._marked.values())).due if self._marked else math.inf

    def under_way(self, feed: Feed) -> set[str]:
        """The ids of a session's messages that are with the database now."""
        return {item.draft.id for item in self._under_way.get(feed.id, ())}

    def _line(self, feed: Feed) -> Line:
        line = self._lines.get(feed.id)
        if line is None:
            line = self._lines[feed.id] = Line(feed, [], {})
        return line

    def add(self, item: Item) -> bool:
        """Take a message; False when too many wait already."""
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
        """Take marks; the highest of each kind is kept."""
        line = self._line(feed)
        for kind, mark in moved.items():
            if kind not in line.moved or mark[0] > line.moved[kind][0]:
                line.moved[kind] = mark
        if not line.items and feed.id not in self._under_way and feed.id not in self._marked:
            self._wait(line, now)

    def _wait(self, line: Line, now: float) -> None:
        line.due = now + MARK_WAITS_S
        self._marked[line.feed.id] = line

    def cut(self, now: float) -> Batch:
        """Take the next batch. A repeated client id stays behind: the batch after it finds the first one stored."""
        batch = Batch([], [], [])
        room, taken = BATCH_ROWS, []
        while self._talking and room > 0:
            _, line = self._talking.popitem(last=False)
            self.ready -= len(line.items)
            items = _without_repeats(line.items[:room])
            room -= len(items)
            taken.append(items)
            self._take(batch, line, items)
        # By turns: a page full of one session's rows has no room for their new versions when all of them are read at once.
        batch.items.extend(item for turn in zip_longest(*taken) for item in turn if item is not None)
        alone = 0
        while self.due <= now + MARK_EARLY_S and alone < BATCH_MARKED:
            _, line = self._marked.popitem(last=False)
            self._take(batch, line, [])
            alone += 1
        return batch

    def _take(self, batch: Batch, line: Line, items: list[Item]) -> None:
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
        """A batch is over, however it ended: its sessions may be in the next."""
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
    """Return what comes before the first message whose client id its sender has used already."""
    if len({item.draft.client_message_id for item in items}) == len(items):
        return items
    seen: set[tuple[str, str]] = set()
    for place, item in enumerate(items):
        key = (item.draft.sender_id, item.draft.client_message_id)
        if key in seen:
            return items[:place]
        seen.add(key)
    return items
