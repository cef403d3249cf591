"""The events that a phone has received, and waiting for the next ones."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

LATE_S = 3.0  # how much later than its cause an event may arrive
Frame = dict[str, Any]


class EventLog:
    """The events in the order of their arrival, each once, and what the service may send again."""

    def __init__(self, check: Callable[[], None]) -> None:
        """`check` raises an exception when nothing more will come; it is called before each wait."""
        self._check = check
        self.events: list[Frame] = []
        self._seen: set[str] = set()
        self._claimed: set[int] = set()
        self._newest: dict[str, str] = {}  # object id -> id of its latest event
        self._news = asyncio.Condition()

    def add(self, frame: Frame) -> bool:
        """Add an event; return False if it is here already."""
        if frame["event_id"] in self._seen:
            return False
        self._seen.add(frame["event_id"])
        self.events.append(frame)
        return True

    def is_newest(self, frame: Frame, object_id: str) -> bool:
        """Return whether an event is later than all earlier ones of its object, and remember it."""
        if frame["event_id"] <= self._newest.get(object_id, ""):
            return False
        self._newest[object_id] = frame["event_id"]
        return True

    async def notify(self) -> None:
        """Let the waiting calls look again."""
        async with self._news:
            self._news.notify_all()

    def take(self, types: tuple[str, ...], where: Callable[[Frame], bool]) -> Frame | None:
        """Return the first of these events for which `where` is true and that was not returned before, or None."""
        for n, frame in enumerate(self.events):
            if n not in self._claimed and frame["type"] in types and where(frame):
                self._claimed.add(n)
                return frame
        return None

    async def wait(
        self,
        types: tuple[str, ...],
        where: Callable[[Frame], bool],
        timeout: float,
        truth: Callable[[], Awaitable[bool]] | None,
    ) -> Frame | None:
        """Wait for what `take` returns. Return None LATE_S seconds after `truth` was true. Raises TimeoutError."""
        loop = asyncio.get_running_loop()
        happened_at: float | None = None
        async with asyncio.timeout(timeout):
            while True:
                found = self.take(types, where)
                if found is not None:
                    return found
                if happened_at is not None and loop.time() > happened_at + LATE_S:
                    return None
                await self._some_news(1.0)
                if truth is not None and happened_at is None and await truth():
                    happened_at = loop.time()

    async def until(self, good: Callable[[], bool], timeout: float) -> None:
        """Wait until `good` returns True. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            while not good():
                await self._some_news(0.5)

    async def _some_news(self, seconds: float) -> None:
        self._check()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._news:
                await self._news.wait()
