"""Whether other realtime processes live: frames are published for them only (docs/architecture.md#signals).

A process that believes itself alone and is not delays the other's frames until its next look into the database. So it
publishes unless fresh evidence of three kinds says that it is alone:

- No other realtime process has a lease, and none had one lately. This finds every process, of any release.
- On the bus, it is the only subscriber to HUBS, and the number of subscribers to the signals has not changed since. The
  latter finds a process of a release that does not subscribe to HUBS.
- It has received no announcement. A process announces itself before it opens its port.
"""

import asyncio
import math
from collections.abc import Callable

from core.base.clock import monotonic, real_sleep
from core.bus import channels
from core.bus.bus import DEADLINE_S, Bus
from core.bus.server import LOST
from core.bus.subscription import Subscription
from core.telemetry import logs

# Real seconds.
LEASES_S = 3.0  # for which a read of the leases counts
SETTLED_S = 3.0  # after a sign of another process, until its absence from the leases counts
LOOK_S = 0.1  # for which a look at the bus counts
RENEW_S = 0.08  # age of a look from which the next one is asked for, so that it ends before this one's time
AGAIN_S = 1.0  # after a look that failed

log = logs.get("bus")


class OtherHubs:
    """What a realtime process knows about the others."""

    def __init__(self, bus: Bus, heard: Subscription, *, node: str, now: Callable[[], float] = monotonic) -> None:
        """`heard` passes the messages of HUBS to `note_announcement`; `node` is this process's id."""
        heard.add([channels.HUBS])
        self._bus = bus
        self._heard = heard
        self._node = node.encode()
        self._now = now
        self._unlisted_at = -math.inf  # start of the last read of the leases; -inf if it found another process
        self._sign_at = now()  # last sign of another process
        self._looked_at = -math.inf  # start of the last look that found no other process on the bus
        self._processes = 0  # subscribers to the signals, as last seen
        self._wanted = asyncio.Event()

    def absent(self) -> bool:
        """Return whether this is surely the only realtime process.

        Ask for the next look at the bus if only that is old.
        """
        now = self._now()
        if now > self._unlisted_at + LEASES_S or self._unlisted_at < self._sign_at + SETTLED_S:
            return False
        if now > self._looked_at + RENEW_S:
            self._wanted.set()
        return now <= self._looked_at + LOOK_S

    def note_leases(self, *, found: bool, began_at: float) -> None:
        """Note whether a read of the leases found another realtime process. It began at `began_at`."""
        self._unlisted_at = -math.inf if found else began_at

    def note_announcement(self, data: bytes) -> None:
        """Note a message on HUBS: a process begins."""
        if data != self._node:
            self.note_sign()

    def note_sign(self) -> None:
        """Note that another realtime process may have begun just now."""
        self._sign_at = self._now()

    async def announce(self) -> None:
        """Let the others know of this process, and wait until they have been sent that."""
        self._bus.publish([(channels.HUBS, self._node)])
        await self._bus.drain()

    async def run(self) -> None:
        """Look at the bus whenever `absent` asks for it, until cancelled."""
        while True:
            await self._wanted.wait()
            began_at = self._now()
            try:
                async with asyncio.timeout(DEADLINE_S):
                    await self._look(began_at)
            except LOST:
                await real_sleep(AGAIN_S)
            except Exception:
                log.exception("looking for other realtime processes failed")
                await real_sleep(AGAIN_S)
            self._wanted.clear()

    async def _look(self, began_at: float) -> None:
        client = self._bus.client_of(channels.SIGNALS)
        count = client.pubsub_shardnumsub if self._bus.is_cluster else client.pubsub_numsub
        (_, processes), (_, hubs) = await count(channels.SIGNALS, channels.HUBS)
        is_only = hubs == 1 and self._heard.is_confirmed(channels.HUBS)
        if is_only and processes == self._processes:
            self._looked_at = began_at
        else:
            self.note_sign()
        self._processes = processes
