"""Pace the refreshes of many phones that arrive at the same moment."""

import asyncio
from collections import deque
from collections.abc import Callable

REFRESHES_A_TURN = 16  # refreshes parsed in one iteration of the event loop: one or two milliseconds


class RefreshPacer:
    """Limits how many refreshes a listener parses in one event loop iteration. Other requests are parsed at once.

    After an outage thousands of phones send a refresh at the same moment. The event loop reads all connections with
    data before it does anything else, so it would parse, start and refuse all of them in one iteration; a webhook would
    wait for such an iteration at each of its steps. A refresh above the limit keeps its bytes, up to a limit, until a
    later iteration.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = REFRESHES_A_TURN
        self._renewing = False
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self) -> bool:
        """Return whether one more refresh may be parsed in this iteration, and count it."""
        if not self._renewing:
            self._renewing = True
            self._loop.call_soon(self._renew)
        if self._left <= 0 or self._waiting:
            return False
        self._left -= 1
        return True

    def wait(self, read: Callable[[], None]) -> None:
        """Call `read` in a later iteration, in the order of arrival."""
        self._waiting.append(read)

    def _renew(self) -> None:
        for _ in range(min(REFRESHES_A_TURN, len(self._waiting))):
            # Each is a separate callback, so that a failure does not stop the others.
            self._loop.call_soon(self._waiting.popleft())
        self._renewing = bool(self._waiting)
        self._left = REFRESHES_A_TURN
        if self._renewing:
            self._loop.call_soon(self._renew)
