"""Storing a batch of messages and read markers in one transaction, and what is said afterwards (hot path).

Acknowledgements and frames are sent after the commit. The status columns of single messages follow the read markers of
their session in bulk, once a second.
"""

import asyncio
import datetime as dt

from core.app.probes import INTERNAL_ERROR
from core.base.clock import real_sleep
from core.base.errors import NotFound, Unavailable
from core.base.languages import Text
from core.events.notices import Envelope, ReadMarkerMoved, StoredMessage
from core.runtime.container import Runtime
from core.sessions.messages import send as message_send
from core.sessions.messages.rules import Marker, NotStored, ReadMarkers, StoreResult
from core.sessions.rules import SessionNotActive
from core.telemetry import logs, metrics
from realtime import outgoing
from realtime.feeds import Feed
from realtime.hub import Hub
from realtime.message_queue import Batch, Item, MessageQueue, Moved

AFTER_FAILURE_S = 0.1
STATUSES_EVERY_S = 1.0
STATUS_PARTS = 20  # into which the statuses of a second are split, so that messages never wait behind many of them
STATUS_SESSIONS = 100  # at most, in one part

NOT_STORED = Text(en="The message was not stored.", id="Pesan ini tidak tersimpan.")

log = logs.get("message_batch")


class MessageStatuses:
    """Write the statuses of the messages whose session has moved read markers."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._behind: set[Feed] = set()

    def add(self, feed: Feed) -> None:
        """Sync the statuses of a session soon, because its stored markers have moved."""
        self._behind.add(feed)

    def forget(self) -> None:
        """Forget which sessions to sync."""
        self._behind.clear()

    async def run(self) -> None:
        """Sync statuses until cancelled."""
        while True:
            todo, self._behind = list(self._behind), set()
            size = min(STATUS_SESSIONS, max(1, len(todo) // STATUS_PARTS))
            parts = [todo[start : start + size] for start in range(0, len(todo), size)]
            for part in parts or ([],):
                await real_sleep(STATUSES_EVERY_S / max(1, len(parts)))
                if part:
                    await self._sync(part)

    async def _sync(self, part: list[Feed]) -> None:
        try:
            final = await message_send.sync_statuses(self._runtime, {feed.id: feed.synced_up_to for feed in part})
        except Exception as error:
            if not isinstance(error, Unavailable):
                log.exception("updating message statuses from the read markers failed")
            self._behind.update(part)
            return
        for feed in part:  # as stored: the markers in memory may be ahead of the database
            feed.synced_up_to = final.get(feed.id, feed.synced_up_to)


class BatchStore:
    """Store batches, answer the senders of their messages and publish what was stored."""

    def __init__(self, hub: Hub, queue: MessageQueue, statuses: MessageStatuses) -> None:
        self._hub = hub
        self._queue = queue
        self._statuses = statuses

    async def store(self, batch: Batch) -> None:
        """Store a batch and answer its senders. Raises what went wrong, unless it is that the database is away."""
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
        now = asyncio.get_running_loop().time()
        for feed, moved in batch.marked:
            self._queue.mark(feed, moved, now)
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


def _highest(moved: Moved) -> ReadMarkers:
    markers = ReadMarkers()
    for marker, (seq, _) in moved.items():
        markers.move(marker, seq)
    return markers
