"""Acknowledgements of events: of all sockets together, many in one statement.

A socket does not wait for its acknowledgement: one that is lost with this process has its event sent again.
"""

import asyncio
from collections import OrderedDict

from core.base import logs
from core.base.clock import monotonic, real_sleep
from core.base.errors import Unavailable
from core.flows import delivery
from core.runtime import Runtime
from realtime.connection import SEND_AGAIN, Connection
from realtime.frames import Ack

GATHER_S = 0.01  # from one statement to the next
AT_ONCE = 500  # of one statement
MOST = 20_000  # that wait; beyond this the client is refused at once
UNKNOWN_COST = 4  # more than an ordinary frame, for an id that deletes nothing
REMEMBERED = 50_000  # acknowledged events: a user's second device acknowledges them as well, at the ordinary cost

log = logs.get("acks")
Waiting = tuple[Connection, str, str | None]  # the event id, the frame's ref


class Acks:
    """The acknowledgements of this process that are not written yet."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._waiting: list[Waiting] = []
        self._acknowledged: OrderedDict[tuple[str, str], None] = OrderedDict()  # (user id, event id), the oldest first
        self._wake = asyncio.Event()

    def add(self, connection: Connection, frame: Ack) -> None:
        """Take an acknowledgement."""
        if len(self._waiting) >= MOST:
            connection.error(
                "UNAVAILABLE",
                SEND_AGAIN,
                frame.ref,
                retry_after_seconds=1,
            )
            return
        self._waiting.append((connection, frame.event_id.lower(), frame.ref))
        self._wake.set()

    async def run(self) -> None:
        """Write acknowledgements until cancelled."""
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
            known = await delivery.acknowledge(self._runtime, acks)
        except Exception as error:
            if not isinstance(error, Unavailable):
                log.exception("acknowledgements could not be written")
            for connection, _, ref in batch:
                connection.error(
                    "UNAVAILABLE",
                    Unavailable.message,
                    ref,
                )
            return
        now = monotonic()
        for connection, event_id, _ in batch:
            if connection.actor is None:
                continue
            key = (connection.actor.user_id, event_id)
            if event_id in known:
                self._acknowledged[key] = None
                if len(self._acknowledged) > REMEMBERED:
                    self._acknowledged.popitem(last=False)
            elif key not in self._acknowledged:
                connection.pay(UNKNOWN_COST, now)
