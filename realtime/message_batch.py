"""Frames of all connections -> batches by session -> one transaction -> acks (hot path).

How this works: a session belongs to one of two partitions. While a partition's batch commits, the next one gathers; an
idle service answers at once, and a busy one writes many rows a transaction. What clients see leaves after the commit.
Nothing that PostgreSQL could refuse gets into a batch: one bad row would fail all of them.
"""

import asyncio
import datetime as dt

import attrs
import msgspec

from core.base import ids, logs, metrics
from core.base.actor import UserType
from core.base.clock import as_text, real_sleep
from core.base.errors import Unavailable
from core.events.notices import Envelope, Passing, StoredMessage
from core.flows import message_send
from core.messages.rules import Draft, Mark, Placed, check_message
from realtime.connection import Connection
from realtime.frames import SendMessage
from realtime.hub import Feed, Hub

PARTITIONS = 2
BATCH_ROWS = 500  # bounds the time one transaction holds its locks
QUEUE_ROWS = 20_000  # beyond this the client is told at once instead of late
GATHER_S = 0.002  # from one batch's start to the next: a commit for every few messages costs more than they do
# Marks ride with a message of their session, or wait this long: most need no row version and no write of their own.
MARK_EVERY_S = 0.1
FILL_EVERY_S = 1.0
FILL_PARTS = 20  # a second's filling is spread over the second: messages under way never wait behind much of it
FILL_SESSIONS = 100

Moved = dict[int, tuple[int, str]]  # which marks (see Feed.marks): up to where, and the connection that said so
log = logs.get("message_batch")
encode = msgspec.json.encode


@attrs.define(slots=True)
class Item:
    """A message on its way to the database."""

    draft: Draft
    connection: Connection
    feed: Feed
    ref: str | None
    sender_type: str


class Partition:
    """Half of the sessions: their queue and their flusher."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._queue: list[Item] = []
        self._marked: dict[str, tuple[Feed, Moved]] = {}  # by session: a feed may be dropped and made anew meanwhile
        self._ripening: asyncio.TimerHandle | None = None
        self._ripe = False  # the oldest of the marks has waited long enough
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._committing: list[Item] = []
        self.busy = False

    @property
    def idle(self) -> bool:
        """Whether everything that was handed in has been committed."""
        return not (self._queue or self._marked or self.busy)

    def committing(self, feed: Feed) -> set[str]:
        """The ids of a session's messages that are with the database now."""
        return {item.draft.id for item in self._committing if item.feed is feed}

    def add(self, item: Item) -> bool:
        """Hand in a message; False when too many wait already."""
        if len(self._queue) >= QUEUE_ROWS:
            return False
        self._queue.append(item)
        self._wake.set()
        return True

    def mark(self, feed: Feed, kind: int, up_to: int, device: str) -> None:
        """Move a mark (see Feed.marks); what is read has been delivered. One absurd mark must not block later ones."""
        bound = min(up_to, feed.last_seq)
        for k in (kind, kind - 1) if kind & 1 else (kind,):
            if bound > feed.marks[k]:
                feed.marks[k] = bound
                self._keep(feed, {k: (bound, device)})

    def _keep(self, feed: Feed, moved: Moved) -> None:
        """Let marks wait for a message of their session, or their time."""
        if self._ripening is None:
            self._ripening = self._loop.call_later(MARK_EVERY_S, self._ripen)
        _, waiting = self._marked.setdefault(feed.id, (feed, {}))
        for kind, mark in moved.items():
            if kind not in waiting or mark[0] > waiting[kind][0]:
                waiting[kind] = mark

    def _ripen(self) -> None:
        self._ripening = None
        if self._marked:
            self._ripe = True
            self._wake.set()

    def _cut(self) -> tuple[list[Item], list[tuple[Feed, Moved]]]:
        """Take a batch. A repeated client id stays behind: the next batch finds the first one stored."""
        batch, twins = self._queue[:BATCH_ROWS], []
        if len({item.draft.client_message_id for item in batch}) < len(batch):
            batch, twins = _apart(batch)
        self._queue[:BATCH_ROWS] = twins
        if self._ripe:
            self._ripe = False
            marked, self._marked = self._marked, {}
            return batch, list(marked.values())
        sessions = {item.feed.id for item in batch} if self._marked else ()
        return batch, [self._marked.pop(session_id) for session_id in sessions if session_id in self._marked]

    async def run(self) -> None:
        """Commit batches until cancelled."""
        began = 0.0
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue or self._ripe:
                self.busy = True
                pause = began + GATHER_S - self._loop.time()
                if pause > 0:
                    await real_sleep(pause)
                began = self._loop.time()
                self._committing, marked = self._cut()
                try:
                    await self._turn(self._committing, marked)
                except Exception:
                    log.exception("a batch failed")
                finally:
                    self.busy, self._committing = False, []

    async def _turn(self, batch: list[Item], marked: list[tuple[Feed, Moved]]) -> None:
        marks = {feed.id: _mark(moved) for feed, moved in marked}
        try:
            at, answers = await message_send.commit_batch(self._hub.runtime, [item.draft for item in batch], marks)
        except Unavailable:
            for feed, moved in marked:  # given up: the marks are kept for another batch
                self._keep(feed, moved)
            for item in batch:
                item.connection.error("UNAVAILABLE", "The message is not stored. Send it again.", item.ref)
            await real_sleep(0.1)
            return
        except Exception:
            for item in batch:
                item.connection.error("INTERNAL_ERROR", "The message is not stored.", item.ref)
            raise
        metrics.BATCHES.inc()
        stored = self._announce(batch, answers)
        passing = self._announce_marks(marked, at)
        if stored or passing:
            envelope = Envelope(messages=stored, passing=passing)
            self._hub.runtime.tell(envelope)

    def _announce(self, batch: list[Item], answers: list[Placed | bool]) -> list[StoredMessage]:
        stored = []
        at, moment = "", None
        for item, placed in zip(batch, answers, strict=True):
            connection = item.connection
            if not isinstance(placed, Placed):
                code = "SESSION_NOT_ACTIVE" if placed else "NOT_FOUND"
                connection.error(code, "The message is not stored.", item.ref)
                continue
            draft = item.draft
            if placed.created_at is not moment:  # a batch has one time, repeated messages have their own
                moment, at = placed.created_at, as_text(placed.created_at)
            server_time = at if not placed.repeated else self._hub.server_time()
            connection.put(_ack(draft, placed, at=at, server_time=server_time, ref=item.ref))
            if placed.repeated:
                continue
            stored.append(
                StoredMessage(
                    session_id=draft.session_id,
                    customer_id=item.feed.customer_id,
                    mitra_id=item.feed.mitra_id,
                    seq=placed.seq,
                    frame=message_send.message_frame(draft, placed, sender_type=item.sender_type, at=at),
                    skip=connection.id,
                )
            )
        if stored:
            metrics.MESSAGES.inc(len(stored))
        return stored

    def _announce_marks(self, marked: list[tuple[Feed, Moved]], at: dt.datetime | None) -> list[Passing]:
        passing = []
        moment = as_text(at) if at is not None else self._hub.server_time()
        for feed, moved in marked:
            self._hub.unfilled.add(feed)
            for kind in sorted(moved):
                up_to, device = moved[kind]
                status = "read" if kind & 1 else "delivered"
                frame = message_send.status_frame(feed.id, status, up_to, moment)
                reader, writer = (feed.customer_id, feed.mitra_id) if kind < 2 else (feed.mitra_id, feed.customer_id)
                passing.append(Passing(recipient_id=writer, frame=frame))
                if status == "read":  # read on one device is read on the others
                    passing.append(Passing(recipient_id=reader, frame=frame, skip=device))
        return passing


def _apart(items: list[Item]) -> tuple[list[Item], list[Item]]:
    """Part messages from those that repeat the client id of one before."""
    first: list[Item] = []
    twins: list[Item] = []
    seen: set[tuple[str, str, str]] = set()
    for item in items:
        key = (item.draft.session_id, item.draft.sender_id, item.draft.client_message_id)
        (twins if key in seen else first).append(item)
        seen.add(key)
    return first, twins


def _ack(draft: Draft, placed: Placed, *, at: str, server_time: str, ref: str | None) -> bytes:
    """The `message_ack` frame, written by hand as `message` is; the client's `ref` is what needs escaping."""
    echoed = "" if ref is None else f',"ref":{encode(ref).decode()}'
    return (
        f'{{"type":"message_ack","client_message_id":"{draft.client_message_id}","id":"{placed.id}","seq":{placed.seq},'
        f'"created_at":"{at}","server_time":"{server_time}"{echoed}}}'
    ).encode()


def _mark(moved: Moved) -> Mark:
    seqs = [moved[kind][0] if kind in moved else 0 for kind in range(4)]
    return Mark(customer_delivered=seqs[0], customer_read=seqs[1], mitra_delivered=seqs[2], mitra_read=seqs[3])


class MessageBatch:
    """The chat's way into the database."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._partitions = [Partition(hub) for _ in range(PARTITIONS)]
        hub.committing = lambda feed: self._of(feed).committing(feed)

    def _of(self, feed: Feed) -> Partition:
        return self._partitions[hash(feed.id) % PARTITIONS]

    def send(self, connection: Connection, feed: Feed, party: str, frame: SendMessage) -> None:
        """Hand in a message frame. Raises ValidationFailed for what can't be stored."""
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
        assert connection.actor is not None
        item = Item(draft, connection, feed, frame.ref, connection.actor.user_type.value)
        if not self._of(feed).add(item):
            connection.error("UNAVAILABLE", "The service is busy. Send it again.", frame.ref, retry_after_seconds=1)

    def mark(self, connection: Connection, feed: Feed, *, read: bool, up_to: int) -> None:
        """Hand in a mark."""
        assert connection.actor is not None
        side = 2 if connection.actor.user_type is UserType.MITRA else 0
        self._of(feed).mark(feed, side + int(read), up_to, connection.id)

    async def run(self) -> None:
        """Commit batches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for partition in self._partitions:
                group.create_task(partition.run())
            group.create_task(self._fill())

    async def _fill(self) -> None:
        """Bring the columns of single messages up to the marks, once a second, in bulk."""
        while True:
            todo, self._hub.unfilled = list(self._hub.unfilled), set()
            size = min(FILL_SESSIONS, max(1, len(todo) // FILL_PARTS))
            parts = [todo[start : start + size] for start in range(0, len(todo), size)]
            for part in parts or ([],):
                await real_sleep(FILL_EVERY_S / max(1, len(parts)))
                if not part:
                    continue
                try:
                    final = await message_send.fill_marks(self._hub.runtime, {feed.id: feed.filled for feed in part})
                except Exception as error:
                    if not isinstance(error, Unavailable):
                        log.exception("the marks of messages could not be filled in")
                    self._hub.unfilled.update(part)
                    continue
                for feed in part:  # what the database has seen: the marks in memory may run ahead of it
                    feed.filled = final.get(feed.id, feed.filled)

    async def drained(self, timeout: float) -> None:
        """Wait until everything that was handed in has been committed."""
        try:
            async with asyncio.timeout(timeout):
                while not all(partition.idle for partition in self._partitions):
                    await real_sleep(0.01)
        except TimeoutError:
            log.warning("some messages were not committed before the stop; their senders have no ack")
