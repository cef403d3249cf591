"""The phones of a chaos run: what users can do with them, and those of the Python client."""

import contextlib
from typing import Any, Protocol

from tools.driving.device import Device

Message = tuple[int | None, str | None, str]  # seq, id, content


class ChaosPhone(Protocol):
    """A user's device. Real seconds everywhere."""

    client: Device

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
    """A phone whose app is the Python client: a mitra's sends heartbeats."""

    def __init__(self, client: Device) -> None:
        self.client = client

    async def start(self) -> "ReferencePhone":
        """Connect."""
        await self.client.start()
        return self

    async def say(self, session_id: str, content: str, *, timeout: float) -> dict[str, Any]:
        return await self.client.say(session_id, content, timeout=timeout)

    async def read(self, session_id: str) -> None:
        await self.client.mark_read(session_id)

    async def next_extension(self) -> dict[str, Any] | None:
        found = self.client.take_event("extension_requested")
        return found["extension"] if found is not None else None

    async def cut(self) -> None:
        await self.client.cut()

    async def restart(self) -> None:
        raise NotImplementedError("the schedule has restarts for phones of the client library only")

    async def hang(self, seconds: float) -> None:
        raise NotImplementedError("the schedule has hanging networks for phones of the client library only")

    async def transcript(self, session_id: str, count: int, *, timeout: float) -> list[Message]:
        with contextlib.suppress(TimeoutError):
            await self.client.until(lambda: len(self.client.transcript(session_id)) >= count, timeout=timeout)
        return [(shown["seq"], shown["id"], shown["content"]) for shown in self.client.transcript(session_id)]

    async def repeated(self) -> list[str]:
        completed = [frame["session"]["id"] for frame in self.client.events if frame["type"] == "session_completed"]
        # Duplicates of one event were removed, so these are two events.
        return [f"session_completed of {one}" for one in set(completed) if completed.count(one) > 1]

    async def describe(self) -> str:
        return self.client.connection_log()

    async def stop(self) -> None:
        await self.client.stop()
