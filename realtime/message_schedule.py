"""When messages and read markers are stored: batches of many connections and sessions, a transaction each (hot path).

While a batch commits, the next one gathers. So an idle service answers at once, and a busy one writes many rows in a
transaction (docs/architecture.md#flow-message). realtime/message_batch.py stores a batch.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable

from core.base.clock import real_sleep
from core.base.errors import Unavailable
from core.sessions.messages.rules import Marker
from core.telemetry import logs
from realtime.connection import SEND_AGAIN, Connection
from realtime.feeds import Feed
from realtime.message_queue import Batch, Item, MessageQueue, Moved

# Between the starts of two batches, unless GATHER_ROWS messages wait: a commit costs more than the few messages that come
# in this time, and no person sees these milliseconds. The first message after a pause is stored at once.
GATHER_S = 0.005
GATHER_ROWS = 8
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
TICK_S = 0.001  # the event loop's timers may be this much early

log = logs.get("message_schedule")


class MessageSchedule:
    """Gather messages and read markers of all connections, and start the batches that store them.

    `store` stores a batch and answers its senders. `crossed_within` returns whether another process has written to
    sessions of this one lately.
    """

    def __init__(
        self,
        queue: MessageQueue,
        store: Callable[[Batch], Awaitable[None]],
        *,
        crossed_within: Callable[[float], bool],
    ) -> None:
        self._queue = queue
        self._store = store
        self._crossed_within = crossed_within
        self._began: dict[Batch, float] = {}  # start of each batch that is being stored, oldest first
        self._last_began = -math.inf
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._loop = asyncio.get_running_loop()

    def send(self, item: Item) -> None:
        """Queue a message; if too many wait, ask its sender to send it again."""
        if self._queue.add(item):
            self._wake.set()
        else:
            item.connection.refuse(Unavailable, item.ref, SEND_AGAIN, retry_after_seconds=1)

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
        if queue.ready < GATHER_ROWS:
            at = max(at, self._last_began + GATHER_S)
        if len(counted) >= AT_ONCE:
            at = max(at, counted[0] + HELD_S)
        elif counted and (queue.ready < APART_ROWS or self._crossed_within(CROSSED_S)):
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

    async def drained(self, timeout: float) -> None:
        """Wait up to `timeout` seconds until the queue is empty and all batches have ended."""
        try:
            async with asyncio.timeout(timeout):
                while not self._queue.idle:
                    await real_sleep(0.01)
        except TimeoutError:
            log.warning("stopping before all messages were committed; their senders got no ack")
