"""The heartbeats and the status of a mitra (docs/protocol.md#the-mitra)."""

import asyncio
import contextlib

from .connection import Connection
from .errors import Refused, SesiError
from .rest import Rest
from .waits import longest_pause
from .wire import Frame, Json

STATUS = "/api/mitra/status"


class Presence:
    """Whether a mitra is online, and the heartbeats that keep them so: over the socket, and over REST without one."""

    def __init__(self, rest: Rest, connection: Connection, *, heartbeats: bool) -> None:
        """With `heartbeats`, they are sent while the mitra is online."""
        self.status: Json | None = None
        self.reason: str | None = None  # why the service took the mitra offline
        self._rest = rest
        self._connection = connection
        self.heartbeats = heartbeats  # whether they are sent from the next status on
        self._beating: asyncio.Task[None] | None = None

    @property
    def is_online(self) -> bool | None:
        """Return whether the mitra is online, or None if that is not known yet."""
        return None if self.status is None else self.status["is_online"]

    def stop(self) -> None:
        """Send no more heartbeats."""
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None

    def clear(self) -> None:
        """Forget everything: the user has signed out."""
        self.stop()
        self.status = self.reason = None

    async def change(self, *, online: bool) -> Json:
        """Go online or offline; return the status. Raises SesiError."""
        return self._keep(await self._rest.ask("POST", f"{STATUS}/{'online' if online else 'offline'}"), None)

    async def read(self) -> None:
        """Read the status, which may have changed while there was no socket."""
        before = self.status
        with contextlib.suppress(SesiError):
            status = await self._rest.ask("GET", STATUS, fields=("is_online",))
            if self.status is before:  # else the answer may be older
                self._keep(status, self.reason)

    def take(self, frame: Frame) -> None:
        """Take `mitra_status_changed`."""
        if frame["type"] == "mitra_status_changed" and self.status is not None:
            self._keep({**self.status, "is_online": frame["is_online"]}, frame.get("reason"))

    def take_refusal(self, refused: Refused) -> None:
        """Take the refusal of a heartbeat."""
        if refused.code == "MITRA_OFFLINE" and self.status is not None:
            self._keep({**self.status, "is_online": False}, self.reason)

    async def receive_push(self, push: Json) -> bool:
        """Answer a presence check; return whether the push was one. `push` is its data."""
        if push.get("action") != "presence_check":
            return False
        # Over REST: a socket of a suspended app may look open although its network is gone.
        await self._beat_over_rest(float(push.get("lifetime_seconds", 0)))
        return True

    def _keep(self, status: Json, reason: str | None) -> Json:
        self.status, self.reason = status, reason
        if not status["is_online"]:
            self.stop()
        elif self.heartbeats and self._beating is None and self._connection.is_running:
            self._beating = asyncio.create_task(self._beat(float(status["heartbeat_cadence_seconds"])))
        return status

    async def _beat(self, cadence_s: float) -> None:
        while True:
            await asyncio.sleep(cadence_s / self._rest.clock.scale)
            if not await self._connection.send({"type": "heartbeat"}):
                await self._beat_over_rest(0.0)

    async def _beat_over_rest(self, within_s: float) -> None:
        """Send a heartbeat; repeat one that finds no service for `within_s`."""
        loop = asyncio.get_running_loop()
        end, attempt = loop.time() + within_s, 0
        while True:
            try:
                await self._rest.call("POST", f"{STATUS}/heartbeat")
                return
            except SesiError as error:
                if isinstance(error, Refused):
                    self.take_refusal(error)
                wait_s = self._rest.wait_after(error, longest_pause(attempt))
                if not error.is_temporary or loop.time() + wait_s >= end:
                    return
            await asyncio.sleep(wait_s)
            attempt += 1
