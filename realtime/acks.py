"""Acknowledgements of events, gathered from all sockets and written in batches.

No socket waits for the write. If the process dies before it, the event is only sent again. Acknowledgements of messages
are read markers (realtime/message_schedule.py), except for those of devices that have not shown the messages.
"""

import asyncio
from collections import OrderedDict

import attrs

from core.base.actor import Actor, UserType
from core.base.clock import monotonic, real_sleep
from core.base.errors import Unavailable
from core.runtime.container import Runtime
from core.sessions import deliver
from core.sessions.messages import send as message_send
from core.sessions.messages.rules import Unshown
from core.telemetry import logs
from realtime.connection import SEND_AGAIN, Connection
from realtime.frames import Ack

GATHER_S = 0.01  # pause between two statements
AT_ONCE = 500  # acknowledgements in one statement; one of unshown messages locks as many sessions
MOST = 20_000  # pending acknowledgements; more are refused with UNAVAILABLE
UNKNOWN_COST = 4  # charged in addition to the frame's 1, for an id that deletes nothing
# Acknowledged events that are remembered: the user's other devices acknowledge them too, and should pay only the
# frame's 1.
REMEMBERED = 50_000

log = logs.get("acks")


@attrs.frozen
class PendingAck:
    """An acknowledgement that is not written yet. `shown`: the user can see the event."""

    connection: Connection
    event_id: str
    shown: bool
    ref: str | None


class Acks:
    """Gather acknowledgements and write them in batches."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._waiting: list[PendingAck] = []
        self._acknowledged: OrderedDict[tuple[str, str], None] = OrderedDict()  # (user id, event id), oldest first
        self._wake = asyncio.Event()
        self._unshown: dict[tuple[str, UserType, str], int] = {}  # (session id, side, device) -> up to which seq
        self._any_unshown = asyncio.Event()

    def add(self, connection: Connection, frame: Ack) -> None:
        """Queue an acknowledgement; if too many are pending, answer with UNAVAILABLE."""
        if len(self._waiting) >= MOST:
            connection.refuse(Unavailable, frame.ref, SEND_AGAIN, retry_after_seconds=1)
            return
        self._waiting.append(PendingAck(connection, frame.event_id.lower(), frame.shown, frame.ref))
        self._wake.set()

    def add_unshown(self, connection: Connection, session_id: str, up_to: int) -> None:
        """Queue that a device has messages up to a seq without showing them.

        If that is lost, or too many are pending, the device gets their push as well.
        """
        actor = connection.actor
        if actor is None or len(self._unshown) >= MOST:
            return
        key = (session_id, actor.user_type, actor.auth_session_id)
        self._unshown[key] = max(up_to, self._unshown.get(key, 0))
        self._any_unshown.set()

    async def run(self) -> None:
        """Write what is queued until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_acknowledging())
            group.create_task(self._keep_noting())

    async def _keep_acknowledging(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                batch, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
                await self._write(batch)
                await real_sleep(GATHER_S)

    async def _keep_noting(self) -> None:
        while True:
            await self._any_unshown.wait()
            await real_sleep(GATHER_S)
            self._any_unshown.clear()
            queued, self._unshown = self._unshown, {}
            unshown = [
                Unshown(session_id=session_id, side=side, device_id=device_id, up_to=up_to)
                for (session_id, side, device_id), up_to in queued.items()
            ]
            try:
                for start in range(0, len(unshown), AT_ONCE):
                    await message_send.note_unshown(self._runtime, unshown[start : start + AT_ONCE])
            except Unavailable:
                continue
            except Exception:
                log.exception("noting messages that are not shown failed")

    async def _write(self, batch: list[PendingAck]) -> None:
        try:
            known = await deliver.acknowledge(
                self._runtime, _acks(batch, shown=True), unshown=_acks(batch, shown=False)
            )
        except Exception as error:
            if not isinstance(error, Unavailable):
                log.exception("writing acknowledgements failed")
            for one in batch:
                one.connection.refuse(Unavailable, one.ref)
            return
        now = monotonic()
        for one in batch:
            if one.connection.actor is not None:
                user_id, is_known = one.connection.actor.user_id, one.event_id in known
                self._charge(one.connection, user_id, one.event_id, is_known=is_known, now=now)

    def _charge(self, connection: Connection, user_id: str, event_id: str, *, is_known: bool, now: float) -> None:
        """Charge the user for an id that deleted nothing, unless another of their devices has acknowledged it."""
        key = (user_id, event_id)
        if is_known:
            self._acknowledged[key] = None
            if len(self._acknowledged) > REMEMBERED:
                self._acknowledged.popitem(last=False)
        elif key not in self._acknowledged:
            connection.pay(UNKNOWN_COST, now)


def _acks(batch: list[PendingAck], *, shown: bool) -> list[tuple[str, Actor]]:
    """Return the event ids and users of the acknowledgements of devices that have, or have not, shown the event."""
    return [
        (one.event_id, one.connection.actor) for one in batch if one.shown is shown and one.connection.actor is not None
    ]
