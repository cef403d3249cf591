"""Events that were written to sockets, gathered from all sockets and written to the delivery trail in batches
(docs/fairness.md#delivery-trail).

No socket waits for the write. If the process dies before it, the trail lacks that these events were sent.
"""

import asyncio
from collections import OrderedDict, deque

from core.base.clock import real_sleep
from core.base.errors import Unavailable
from core.deliveries import note_trail
from core.deliveries.stages import TrailMark, TrailStage
from core.runtime.container import Runtime
from core.telemetry import logs, metrics

GATHER_S = 0.25  # pause before a statement
AGAIN_S = 1.0  # pause after a failed statement
AT_ONCE = 500  # rows in one statement
MOST = 20_000  # rows that wait; more are dropped
# (event, device) that were noted. A client that reconnects again and again is sent the same events again, and they cost
# no further statement.
REMEMBERED = 50_000

log = logs.get("sent_events")


class SentEvents:
    """Gather the events that were sent, and write them in batches."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._waiting: deque[TrailMark] = deque()
        self._noted: OrderedDict[tuple[str, str], None] = OrderedDict()  # oldest first
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def add(self, auth_session_id: str, event_ids: list[str]) -> None:
        """Note that events were written to a device's socket, each once."""
        now = self._runtime.now()
        for event_id in event_ids:
            key = (event_id, auth_session_id)
            if key in self._noted:
                continue
            if len(self._waiting) >= MOST:
                metrics.DELIVERY_TRAIL_DROPPED.inc()
                continue
            self._noted[key] = None
            if len(self._noted) > REMEMBERED:
                self._noted.popitem(last=False)
            self._waiting.append(
                TrailMark(event_id=event_id, auth_session_id=auth_session_id, stage=TrailStage.SENT, at=now)
            )
            self._idle.clear()
            self._wake.set()

    async def run(self) -> None:
        """Write what was noted until cancelled."""
        while True:
            await self._wake.wait()
            await real_sleep(GATHER_S)
            self._wake.clear()
            await self.store()

    async def store(self) -> None:
        """Write what was noted; while the database can't take it, wait."""
        while self._waiting:
            await self._write([self._waiting.popleft() for _ in range(min(AT_ONCE, len(self._waiting)))])
        self._idle.set()

    async def drained(self, timeout: float) -> None:
        """Wait up to `timeout` seconds until everything is written."""
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            log.warning("the delivery trail lacks events that were sent", events=len(self._waiting))

    async def _write(self, marks: list[TrailMark]) -> None:
        try:
            await note_trail.note_sent(self._runtime, marks)
        except Unavailable:
            self._waiting.extendleft(reversed(marks))
            await real_sleep(AGAIN_S)
        except Exception:
            metrics.DELIVERY_TRAIL_DROPPED.inc(len(marks))
            log.exception("writing to the delivery trail failed")
