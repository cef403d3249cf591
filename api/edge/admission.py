"""Limits on the requests that a listener handles at the same time (docs/architecture.md#processes).

A request above the limit is refused at once, so that those before it are answered in time.
"""

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterator

from core.base.addresses import networks_of
from core.base.clock import monotonic
from core.base.errors import Unavailable
from core.telemetry import metrics

REQUESTS = 512  # in progress on one listener; this is a queue of about 1 s for each of the 20 database connections
REFRESHES_AT_ONCE = 6  # of the 20 database connections; the others stay free for webhooks and signed-in users
REFRESHES = 256  # in progress or waiting: about half a second of work
REFRESHES_PER_ADDRESS = 64  # a quarter of all, so that a storm behind one address leaves room for the others
COME_BACK_PER_SECOND = 200  # refused clients that may retry; fewer than a process serves, so others get in too
COME_BACK_S = 30  # longest wait; a phone that waits for longer looks broken


class RequestAdmission:
    """The requests in progress of one listener of this process."""

    def __init__(self, *, overloaded: Callable[[], None]) -> None:
        """Call `overloaded` for each refused request."""
        self._overloaded = overloaded
        self._requests = 0
        self._last_back = 0.0  # monotonic time at which the last refused client may retry
        self._refreshes: Counter[str] = Counter()  # address -> its admitted refreshes; at most REFRESHES entries
        self.refreshing = asyncio.Semaphore(REFRESHES_AT_ONCE)  # for admitted refreshes

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Count a request while it is handled.

        Raises Unavailable, with a time to retry, if there are too many.
        """
        if self._requests >= REQUESTS:
            raise self._too_many("http_requests")
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    def refresh(self, host: str) -> "Slot":
        """Admit a refresh from a client's address.

        Raises Unavailable, with a time to retry, if there are too many in all, or too many from this address (for IPv6,
        from its /64 network).
        """
        if self._refreshes.total() >= REFRESHES:
            raise self._too_many("refreshes_at_once")
        address = networks_of(host)[0]
        if self._refreshes[address] >= REFRESHES_PER_ADDRESS:
            raise self._too_many("refreshes_at_once_per_address")
        return Slot(self._refreshes, address)

    def _too_many(self, limit: str) -> Unavailable:
        self._overloaded()
        metrics.LIMITED.labels(limit).inc()
        return Unavailable(retry_after_seconds=self._come_back())

    def _come_back(self) -> int:
        """Return the seconds after which a refused client may retry.

        Refused clients came at the same moment, so each gets a later time than the one before: a few retry after a
        second, and five thousand within 25 s.
        """
        now = monotonic()
        self._last_back = min(max(now, self._last_back) + 1 / COME_BACK_PER_SECOND, now + COME_BACK_S)
        return min(COME_BACK_S, math.ceil(self._last_back - now))  # now + 30 - now may be a little more than 30


class Slot:
    """The admission of one refresh."""

    def __init__(self, taken: Counter[str], address: str) -> None:
        self._claimed = taken
        self._address = address
        self._left = False
        taken[address] += 1

    def leave(self) -> None:
        """End the admission. Further calls do nothing."""
        if not self._left:
            self._left = True
            self._claimed[self._address] -= 1
            if not self._claimed[self._address]:
                del self._claimed[self._address]
