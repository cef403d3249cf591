"""The phones of a chaos run: what users can do with them, and the phones of the Python reference client."""

import contextlib
from typing import Any, Protocol

from tools.driving.client import Client
from tools.driving.phone import Phone

Message = tuple[int | None, str | None, str]  # seq, id, content


class ChaosPhone(Protocol):
    """A user's device. Real seconds everywhere."""

    client: Client

    async def say(self, session_id: str, content: str, *, timeout: float) -> dict[str, Any]:
        """Send a message and return its acknowledgement. Raises Refused, TimeoutError."""
        ...

    async def read(self, session_id: str) -> None:
        """Mark what is shown as read."""
        ...

    async def next_extension(self) -> dict[str, Any] | None:
        """Return an extension that the mitra was asked for and that was not returned before, if any."""
        ...

    async def cut(self) -> None:
        """Lose all connections."""
        ...

    async def restart(self) -> None:
        """Kill the app, and start it with what it has stored."""
        ...

    async def hang(self, seconds: float) -> None:
        """Let the network carry nothing for `seconds`, then lose all connections."""
        ...

    async def transcript(self, session_id: str, count: int, *, timeout: float) -> list[Message]:
        """Return what is shown of a session, once it is `count` messages or `timeout` is over."""
        ...

    async def repeated(self) -> list[str]:
        """Return what was shown twice."""
        ...

    async def describe(self) -> str:
        """Describe the latest connections, for error messages."""
        ...

    async def stop(self) -> None:
        """Disconnect."""
        ...


class ReferencePhone:
    """A phone of the Python reference client: one socket for chats, and one for a mitra's chat requests."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._chat = Phone(client)
        self._pairing: Phone | None = None

    async def start(self, *, heartbeat_s: float | None = None) -> "ReferencePhone":
        """Connect; with `heartbeat_s`, send heartbeats at that interval on the pairing path."""
        await self._chat.start()
        if heartbeat_s is not None:
            self._pairing = await Phone(self.client, "pairing", heartbeat_s=heartbeat_s).start()
        return self

    async def say(self, session_id: str, content: str, *, timeout: float) -> dict[str, Any]:
        return await self._chat.say(session_id, content, timeout=timeout)

    async def read(self, session_id: str) -> None:
        await self._chat.read(session_id)

    async def next_extension(self) -> dict[str, Any] | None:
        found = self._chat._take_event(("extension_requested",), lambda _: True)
        return found["extension"] if found is not None else None

    async def cut(self) -> None:
        for phone in (self._chat, self._pairing):
            if phone is not None:
                await phone.cut()

    async def restart(self) -> None:
        raise NotImplementedError("the schedule has restarts for phones of the client library only")

    async def hang(self, seconds: float) -> None:
        raise NotImplementedError("the schedule has hanging networks for phones of the client library only")

    async def transcript(self, session_id: str, count: int, *, timeout: float) -> list[Message]:
        with contextlib.suppress(TimeoutError):
            await self._chat.until(lambda: len(self._chat.transcript(session_id)) >= count, timeout=timeout)
        return [(shown["seq"], shown["id"], shown["content"]) for shown in self._chat.transcript(session_id)]

    async def repeated(self) -> list[str]:
        told = [frame["session"]["id"] for frame in self._chat.events if frame["type"] == "session_completed"]
        # Duplicates of one event were removed, so these are two events.
        return [f"session_completed of {session_id}" for session_id in set(told) if told.count(session_id) > 1]

    async def describe(self) -> str:
        return self._chat.connection_log()

    async def stop(self) -> None:
        for phone in (self._chat, self._pairing):
            if phone is not None:
                await phone.stop()
