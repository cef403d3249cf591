"""Storage of chat messages and read markers in batches: one transaction for many connections and sessions (hot path).

While a batch commits, the next one gathers. So an idle service answers at once, and a busy one writes many rows in a
transaction. Acknowledgements and frames are sent after the commit. Rows that PostgreSQL could refuse are refused before
they enter a batch, because one bad row would fail all others (docs/architecture.md#flow-message).
"""

import asyncio
import datetime as dt
import math

from core.app.probes import INTERNAL_ERROR
from core.base import ids
from core.base.clock import real_sleep
from core.base.errors import NotFound, Unavailable
from core.base.languages import Text
from core.events.notices import Envelope, ReadMarkerMoved, StoredMessage
from core.sessions.messages import send as message_send
from core.sessions.messages.rules import Draft, Marker, NotStored, ReadMarkers, StoreResult, check_message
from core.sessions.rules import SessionNotActive
from core.telemetry import logs, metrics
from realtime import outgoing
from realtime.connection import SEND_AGAIN, Connection
from realtime.feed import Feed
from realtime.frames import SendMessage
from realtime.hub import Hub
from realtime.message_queue import Batch, Item, MessageQueue, Moved
from realtime.message_statuses import MessageStatuses

# Between the starts of two batches: a commit costs more than the few messages that come in this time. At 1,000 messages
# a second, 2 ms would take a fifth less processor time, and a message would be on its way three quarters longer.
GATHER_S = 0.001
# A small batch costs nearly as much as a large one. So a second batch starts only if APART_ROWS messages wait, or if
# the first has run for SLOW_S seconds. Batches older than HELD_S are blocked on a lock and don't count. If another
# process has written to the same sessions within CROSSED_S, only the latter condition counts: two batches would wait
# with locks held.
AT_ONCE = 2
APART_ROWS = 64
SLOW_S = 0.1
HELD_S = 0.5
CROSSED_S = 1.0
MOST_AT_ONCE = 4  # including blocked ones; each needs a connection of the pool
AFTER_FAILURE_S = 0.1
TICK_S = 0.001  # the event loop's timers may be this much early

NOT_STORED = Text(en="The message was not stored.", id="Pesan ini tidak tersimpan.")

log = logs.get("message_batch")


def _highest(moved: Moved) -> ReadMarkers:
    markers = ReadMarkers()
    for marker, (seq, _) in moved.items():
        markers.move(marker, seq)
    return markers


class MessageBatch:
    """Gather messages and read markers of all connections, and store them in batches."""

    def __init__(self, hub: Hub, queue: MessageQueue, statuses: MessageStatuses) -> None:
        self._hub = hub
        self._queue = queue
        self._statuses = statuses
        self._began: dict[Batch, float] = {}  # start of each batch that is being stored, oldest first
        self._last_began = -math.inf
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._loop = asyncio.get_running_loop()

    def send(self, connection: Connection, feed: Feed, party: str, frame: SendMessage) -> None:
        """Queue a message. Raises ValidationFailed if it can't be stored."""
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
        if self._queue.add(Item(draft, connection, feed, frame.ref)):
            self._wake.set()
        else:
            connection.refuse(Unavailable, frame.ref, SEND_AGAIN, retry_after_seconds=1)

    def mark(self, connection: Connection, feed: Feed, *, read: bool, up_to: int) -> None:
        """Queue a read marker; a message that is read is also delivered.

        A marker beyond the last message is lowered to it, so that it does not block later ones.
        """
        assert connection.actor is not None
        bound = min(up_to, feed.last_seq)
        moved: Moved = {}
        for marker in Marker.moved_by(connection.actor.user_type, read=read):
            if feed.read_markers.move(marker, bound):
                moved[marker] = (bound, connection.id)
        if moved:
            self._queue.mark(feed, moved, self._loop.time())
            if self._queue.due < self._timer_at:
                self._wake.set()

    def _may_begin_at(self) -> float:
        """Return the loop time at which the next batch may start.

        It is in the past if a batch may start now, and infinity if another event must come first.
        """
        if len(self._began) >= MOST_AT_ONCE:
            return math.inf
        now, queue = self._loop.time(), self._queue
        counted = [began for began in self._began.values() if now + TICK_S < began + HELD_S]  # oldest first
        at = -math.inf if queue.ready else queue.due
        if len(counted) >= AT_ONCE:
            at = max(at, counted[0] + HELD_S)
        elif counted and (queue.ready < APART_ROWS or self._hub.feeds.crossed_within(CROSSED_S)):
            at = max(at, counted[0] + SLOW_S)
        return at

    def _wake_at(self, at: float) -> None:
        """Wake `run` at that loop time, unless it wakes earlier anyway."""
        if at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at, self._timer = at, self._loop.call_at(at, self._time_has_come)

    def _time_has_come(self) -> None:
        self._timer_at, self._timer = math.inf, None
        self._wake.set()

    async def run(self) -> None:
        """Commit batches until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._wake.wait()
                self._wake.clear()
                pause = self._last_began + GATHER_S - self._loop.time()
                if pause > 0:
                    await real_sleep(pause)
                now = self._loop.time()
                if self._may_begin_at() <= now + TICK_S:
                    batch = self._queue.cut(now)
                    self._last_began = self._began[batch] = now
                    group.create_task(self._commit(batch))
                if (at := self._may_begin_at()) <= now + TICK_S:
                    self._wake.set()
                else:
                    self._wake_at(at)

    async def _commit(self, batch: Batch) -> None:
        try:
            await self._store(batch)
        except Exception:
            log.exception("storing a batch failed")
        finally:
            del self._began[batch]
            self._queue.finish(batch, self._loop.time())
            self._wake.set()

    async def _store(self, batch: Batch) -> None:
        marks = {feed.id: _highest(moved) for feed, moved in batch.marked}
        try:
            at, answers = await message_send.commit_batch(
                self._hub.runtime, [item.draft for item in batch.items], marks
            )
        except Exception as error:
            away = isinstance(error, Unavailable)
            self._give_up(batch, Unavailable.code if away else INTERNAL_ERROR.code)
            await real_sleep(AFTER_FAILURE_S)
            if away:
                return
            raise
        metrics.BATCHES.inc()
        stored = self._answer(batch.items, answers)
        moved = self._moved_markers(batch.marked, at or self._hub.runtime.now())
        self._hub.runtime.publisher.publish_frames(Envelope(messages=stored, read_markers=moved))
        self._hub.connections.flush()
        if len(stored) < len(batch.items):
            await self._refuse(batch.items, answers)
            self._hub.connections.flush()

    def _give_up(self, batch: Batch, code: str) -> None:
        """Answer the senders with an error, and queue the read markers for another batch.

        If the answer to COMMIT was lost, the messages may have been stored, so the text leaves that open. A message
        that is repeated with its `client_message_id` is stored once.
        """
        for feed, moved in batch.marked:
            self._queue.mark(feed, moved, self._loop.time())
        for item in batch.items:
            item.ask_again(code)

    async def _refuse(self, items: list[Item], answers: list[StoreResult | NotStored]) -> None:
        """Answer the senders of messages that were not stored, after all others have their answers.

        A message to a session that has ended and goes on after a credit is to be sent again.
        """
        go_on = await message_send.go_on(self._hub.runtime, [item.draft for item in items], answers)
        for item, result in zip(items, answers, strict=True):
            if result is NotStored.NOT_A_PARTY:
                item.connection.refuse(NotFound, item.ref, NOT_STORED)
            elif result is NotStored.NOT_ACTIVE and item.draft.session_id in go_on:
                item.ask_again(Unavailable.code)
            elif result is NotStored.NOT_ACTIVE:
                item.connection.refuse(SessionNotActive, item.ref, NOT_STORED)

    def _answer(self, items: list[Item], answers: list[StoreResult | NotStored]) -> list[StoredMessage]:
        """Acknowledge the stored messages, and return those that were stored for the first time."""
        stored, now = [], self._hub.runtime.now()
        for item, result in zip(items, answers, strict=True):
            connection = item.connection
            if not isinstance(result, StoreResult):
                continue
            connection.put(outgoing.message_ack(item.draft, result, ref=item.ref, now=now))
            if not result.repeated:
                feed = item.feed
                stored.append(
                    item.draft.stored(result, customer_id=feed.customer_id, mitra_id=feed.mitra_id, skip=connection.id)
                )
        if stored:
            metrics.MESSAGES.inc(len(stored))
        return stored

    def _moved_markers(self, marked: list[tuple[Feed, Moved]], at: dt.datetime) -> list[ReadMarkerMoved]:
        found = []
        for feed, moved in marked:
            self._statuses.add(feed)
            for marker in Marker:
                if marker in moved:
                    seq, device = moved[marker]
                    found.append(feed.moved(marker, seq, at=at, skip=device))
        return found

    async def drained(self, timeout: float) -> None:
        """Wait up to `timeout` seconds until the queue is empty and all batches have ended."""
        try:
            async with asyncio.timeout(timeout):
                while not self._queue.idle:
                    await real_sleep(0.01)
        except TimeoutError:
            log.warning("stopping before all messages were committed; their senders got no ack")
