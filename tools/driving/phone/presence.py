"""The heartbeats and the status of a mitra (docs/protocol.md#the-mitra)."""

import asyncio
import contextlib
from typing import Any

import aiohttp

from tools.driving.client import Client, Refused
from tools.driving.phone.connection import PhoneConnection

Frame = dict[str, Any]
STATUS = "/api/mitra/status"


class PhonePresence:
    """A mitra's heartbeats: over the socket, and over REST while there is none."""

    def __init__(self, client: Client, connection: PhoneConnection) -> None:
        self._client = client
        self._connection = connection
        self.is_online: bool | None = None  # None: not known yet

    async def set_online(self, *, online: bool) -> Frame:
        """Go online or offline; return the status. Raises Refused."""
        status = await self._client.post(f"{STATUS}/{'online' if online else 'offline'}")
        self.is_online = status["is_online"]
        return status

    async def read(self) -> None:
        """Read the status, which may have changed while the phone was not connected."""
        with contextlib.suppress(Refused, aiohttp.ClientError, ConnectionError, TimeoutError):
            self.is_online = (await self._client.get(STATUS))["is_online"]

    def take(self, frame: Frame) -> None:
        """Take `mitra_status_changed`, or the refusal of a heartbeat."""
        if frame["type"] == "mitra_status_changed":
            self.is_online = frame["is_online"]
        elif frame.get("code") == "MITRA_OFFLINE":
            self.is_online = False

    async def send_heartbeats(self, every_s: float) -> None:
        """Send a heartbeat every `every_s` real seconds until cancelled; none while the mitra is offline."""
        while True:
            if self.is_online is not False:
                await self._beat()
            await asyncio.sleep(every_s)

    async def receive_push(self, push: Frame) -> bool:
        """Answer a presence check by a heartbeat, over REST; return whether the push was one. `push` is its data."""
        if push["action"] != "presence_check":
            return False
        await self._beat_over_rest()
        return True

    async def _beat(self) -> None:
        if self._connection.open is not None:
            await self._connection.send({"type": "heartbeat"})
        else:
            await self._beat_over_rest()

    async def _beat_over_rest(self) -> None:
        try:
            await self._client.post(f"{STATUS}/heartbeat")
        except Refused as refused:
            self.take({"type": "error", "code": refused.code})
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            return
