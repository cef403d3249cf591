"""Heartbeats over sockets: every frame of a mitra counts as one (docs/product.md#heartbeat).

A heartbeat is stored at most once in EVERY_S seconds for each mitra, those of many mitras in one statement. A frame
starts the write in the background. Only two frames wait for it: `heartbeat`, which is answered by an error if the mitra
is offline, and `accept`, which is refused if the mitra was silent for too long. A write that failed because the
database was unavailable is retried every second. So when the database is back, the heartbeats of all mitras who sent
something since are stored at once.
"""

import asyncio
import functools
from collections import OrderedDict
from collections.abc import Callable

import attrs

from core.accounts.mitras.rules import HeartbeatChannel, MitraOffline
from core.base.actor import Actor
from core.base.batch_loader import BatchLoader
from core.base.clock import monotonic, real_sleep
from core.base.errors import Unavailable
from core.pairing import presence
from core.runtime.container import Runtime
from core.telemetry import logs

EVERY_S = 10.0  # service seconds between two writes for a mitra
AGAIN_S = 1.0  # real seconds, at most, until a failed write is retried

log = logs.get("heartbeats")


@attrs.frozen
class _LastHeartbeat:
    """The result of a mitra's last write. Until `until` (monotonic), the mitra's frames need no other one."""

    until: float
    is_online: bool | None  # None: the mitra's row is locked or the write failed


class Heartbeats:
    """Write the heartbeats of the mitras who are connected to this process.

    `is_here` returns whether a mitra has a socket in this process.
    """

    def __init__(self, runtime: Runtime, *, is_here: Callable[[str], bool]) -> None:
        self._runtime = runtime
        self._is_here = is_here
        self._failed: set[str] = set()  # mitras whose last heartbeat could not be stored
        # One statement for all mitras who send at the same time: thousands come back at once after an interruption.
        self._together = BatchLoader(functools.partial(presence.heartbeats, runtime), nothing=None)
        self._every_s = EVERY_S / runtime.clock.scale
        self._again_s = min(AGAIN_S, self._every_s)
        self._last: OrderedDict[str, _LastHeartbeat] = OrderedDict()  # oldest first
        self._under_way: dict[str, asyncio.Task[bool | None]] = {}

    def note_frame(self, mitra_id: str, now: float) -> None:
        """Start the write of a mitra's heartbeat in the background, unless one is recent. `now` is monotonic."""
        last = self._last.get(mitra_id)
        if last is None or now >= last.until:
            self._ask(mitra_id)

    def arrived(self, mitra_id: str) -> None:
        """Store a heartbeat of a mitra whose socket has just authenticated.

        Its result answers no later `heartbeat` frame.
        """

        def forget_answer(_: object) -> None:
            last = self._last.get(mitra_id)
            if last is not None:
                self._last[mitra_id] = _LastHeartbeat(last.until, None)

        self._ask(mitra_id).add_done_callback(forget_answer)

    async def note(self, actor: Actor) -> bool:
        """Store a heartbeat, unless one is recent; return whether the mitra is online. Raises Unavailable."""
        last = self._last.get(actor.user_id)
        if last is not None and last.is_online and monotonic() < last.until:
            return True
        is_online = await asyncio.shield(self._ask(actor.user_id))
        if is_online is not None:
            self._remember(actor.user_id, is_online)
        else:
            try:
                await presence.heartbeat(self._runtime, actor, HeartbeatChannel.SOCKET)  # waits for the row's lock
                is_online = True
            except MitraOffline:
                is_online = False
            self._remember(actor.user_id, is_online)
        return is_online

    def _ask(self, mitra_id: str) -> asyncio.Task[bool | None]:
        """Return the task of the write that is under way, or start one."""
        task = self._under_way.get(mitra_id)
        if task is None:
            task = self._under_way[mitra_id] = asyncio.create_task(self._note(mitra_id))
        return task

    async def _note(self, mitra_id: str) -> bool | None:
        is_online = None
        try:
            is_online = await self._together.of(mitra_id)
        except Unavailable:
            self._failed.add(mitra_id)
        except Exception:
            log.exception("storing a heartbeat failed", mitra_id=mitra_id)
        finally:
            del self._under_way[mitra_id]
        self._remember(mitra_id, is_online)
        return is_online

    async def store_failed(self) -> None:
        """Retry failed heartbeat writes of mitras who are still connected, until cancelled."""
        while True:
            await real_sleep(self._again_s)
            failed, self._failed = self._failed, set()
            for mitra_id in failed:
                if self._is_here(mitra_id):
                    self._ask(mitra_id)

    def _remember(self, mitra_id: str, is_online: bool | None) -> None:
        now = monotonic()
        self._last.pop(mitra_id, None)
        self._last[mitra_id] = _LastHeartbeat(now + (self._again_s if is_online is None else self._every_s), is_online)
        while next(iter(self._last.values())).until <= now:  # expired
            self._last.popitem(last=False)
