"""Acknowledgements of events, gathered from all sockets and written in batches.

No socket waits for the write. If the process dies before it, the event is only sent again.
"""

import asyncio
from collections import OrderedDict

from core.base.clock import monotonic, real_sleep
from core.base.errors import Unavailable
from core.runtime.container import Runtime
from core.sessions import deliver
from core.telemetry import logs
from realtime.connection import SEND_AGAIN, Connection
from realtime.frames import Ack

GATHER_S = 0.01  # pause between two statements
AT_ONCE = 500  # acknowledgements in one statement
MOST = 20_000  # pending acknowledgements; more are refused with UNAVAILABLE
UNKNOWN_COST = 4  # charged in addition to the frame's 1, for an id that deletes nothing
# Acknowledged events that are remembered: the user's other devices acknowledge them too, and should pay only the
# frame's 1.
REMEMBERED = 50_000

log = logs.get("acks")
Waiting = tuple[Connection, str, str | None]  # connection, event id, the frame's ref


class Acks:
    """Gather acknowledgements and write them in batches."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._waiting: list[Waiting] = []
        self._acknowledged: OrderedDict[tuple[str, str], None] = OrderedDict()  # (user id, event id), oldest first
        self._wake = asyncio.Event()

    def add(self, connection: Connection, frame: Ack) -> None:
        """Queue an acknowledgement; if too many are pending, answer with UNAVAILABLE."""
        if len(self._waiting) >= MOST:
            connection.refuse(Unavailable, frame.ref, SEND_AGAIN, retry_after_seconds=1)
            return
        self._waiting.append((connection, frame.event_id.lower(), frame.ref))
        self._wake.set()

    async def run(self) -> None:
        """Write queued acknowledgements until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                batch, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
                await self._write(batch)
                await real_sleep(GATHER_S)

    async def _write(self, batch: list[Waiting]) -> None:
        try:
            acks = [(event_id, connection.actor) for connection, event_id, _ in batch if connection.actor is not None]
            known = await deliver.acknowledge(self._runtime, acks)
        except Exception as error:
            if not isinstance(error, Unavailable):
                log.exception("writing acknowledgements failed")
            for connection, _, ref in batch:
                connection.refuse(Unavailable, ref)
            return
        now = monotonic()
        for connection, event_id, _ in batch:
            if connection.actor is not None:
                self._charge(connection, connection.actor.user_id, event_id, is_known=event_id in known, now=now)

    def _charge(self, connection: Connection, user_id: str, event_id: str, *, is_known: bool, now: float) -> None:
        """Charge the user for an id that deleted nothing, unless another of their devices has acknowledged it."""
        key = (user_id, event_id)
        if is_known:
            self._acknowledged[key] = None
            if len(self._acknowledged) > REMEMBERED:
                self._acknowledged.popitem(last=False)
        elif key not in self._acknowledged:
            connection.pay(UNKNOWN_COST, now)
