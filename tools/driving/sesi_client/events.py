"""Events: each is acted on once, unless a later one of its order key was there before (docs/protocol.md#events)."""

import asyncio
import contextlib
import re
from collections.abc import Callable
from typing import Any

from .wire import Frame

REMEMBERED = 1000
# What each event is about, by type (docs/events.md#all-events); all others are about a session.
ORDER_KEYS = {
    "account_updated": "account_updated",
    "chat_request": "chat_request {request.session_id}",
    "chat_request_closed": "chat_request {session_id}",
    "extension_requested": "extension {extension.id}",
    "extension_resolved": "extension {extension.id}",
    "message": "message {message.id}",
    "mitra_status_changed": "mitra_status_changed",
    "pairing_status": "pairing_status {payment_request_id}",
    "payment_updated": "payment_updated {payment_request.payment_request_id}",
    "peer_absent": "peer {session_id}",
    "peer_renamed": "peer_renamed {session_id}",
    "peer_returned": "peer {session_id}",
    "session_topic_updated": "session_topic_updated {session_id}",
    "session_warning": "session_warning {session_id}",
}


def order_key(event: Frame) -> str:
    """Return the order key of an event: only events with the same one are compared.

    An event that this version does not know has a key for itself.
    """
    template = ORDER_KEYS.get(event["type"], "session {session.id}" if "session" in event else "{event_id}")

    def value(match: re.Match[str]) -> str:
        found: Any = event
        for name in match[1].split("."):
            found = found.get(name) if isinstance(found, dict) else None
        return str(found)

    return re.sub(r"\{([\w.]+)\}", value, template)


class EventLog:
    """The newest events in the order of their arrival, each once, and calls that wait for the next ones."""

    def __init__(self, check: Callable[[], None]) -> None:
        """`check` raises an exception when nothing more will come; it is called before each wait."""
        self._check = check
        self._events: dict[str, Frame] = {}
        self._claimed: set[str] = set()
        self._newest: dict[str, str] = {}  # order key -> id of its latest event
        self._news = asyncio.Condition()

    @property
    def events(self) -> list[Frame]:
        """Return the newest events in the order of their arrival."""
        return list(self._events.values())

    def add(self, event: Frame) -> bool:
        """Add an event; return False if it is here already."""
        if event["event_id"] in self._events:
            return False
        self._events[event["event_id"]] = event
        if len(self._events) > REMEMBERED:
            oldest = next(iter(self._events))
            del self._events[oldest]
            self._claimed.discard(oldest)
        return True

    def is_newest(self, event: Frame) -> bool:
        """Return whether an event is later than all earlier ones of its order key, and remember it."""
        key = order_key(event)
        if event["event_id"] <= self._newest.get(key, ""):
            return False
        self._newest[key] = event["event_id"]
        return True

    def forget_order(self) -> None:
        """Compare no event with earlier ones: the service's database was replaced."""
        self._newest.clear()

    async def notify(self) -> None:
        """Let the waiting calls look again."""
        async with self._news:
            self._news.notify_all()

    def take(self, types: tuple[str, ...], where: Callable[[Frame], bool]) -> Frame | None:
        """Return the first of these events for which `where` is true and that was not returned before, or None."""
        for event_id, event in self._events.items():
            if event_id not in self._claimed and event["type"] in types and where(event):
                self._claimed.add(event_id)
                return event
        return None

    async def wait(self, types: tuple[str, ...], where: Callable[[Frame], bool], timeout: float | None) -> Frame:
        """Wait for what `take` returns. Raises TimeoutError."""
        found: list[Frame] = []

        def is_here() -> bool:
            event = self.take(types, where)
            found.extend([] if event is None else [event])
            return event is not None

        await self.until(is_here, timeout)
        return found[0]

    async def until(self, good: Callable[[], bool], timeout: float | None) -> None:
        """Wait until `good` returns True. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            while not good():
                await self._some_news(0.5)

    async def _some_news(self, seconds: float) -> None:
        self._check()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._news:
                await self._news.wait()
