"""How many requests a listener works on at once. One more is refused at once, so that those before it are answered in time."""

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterator

from core.base import metrics
from core.base.addresses import networks_of
from core.base.clock import monotonic
from core.base.errors import Unavailable

REQUESTS = 512  # in progress on a listener; each of 20 connections to the database then has a queue of about a second
REFRESHES_AT_ONCE = 6  # of 20 connections to the database: the others stay free for webhooks and signed-in users
REFRESHES = 256  # in progress or waiting: about half a second of work
REFRESHES_PER_ADDRESS = 64  # a quarter: a storm behind one address leaves the other places to the other addresses
COME_BACK_PER_SECOND = 200  # refused clients: fewer than a process serves, so that others find room meanwhile
COME_BACK_S = 30  # at the latest: a phone that waits for longer looks broken


class Admission:
    """Counts the requests in progress of one listener of a process."""

    def __init__(self, *, overloaded: Callable[[], None]) -> None:
        """`overloaded` is called for each request that is refused."""
        self._overloaded = overloaded
        self._requests = 0
        self._last_back = 0.0  # the moment that the last refused client was given to come back, on the monotonic clock
        self._refreshes: Counter[str] = Counter()  # the places taken by each address: at most REFRESHES entries
        self.refreshing = asyncio.Semaphore(REFRESHES_AT_ONCE)  # for those that have a place

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Work on a request. Raises Unavailable, with a time to come back, when there are too many."""
        if self._requests >= REQUESTS:
            raise self._too_many("http_requests")
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    def refresh(self, host: str) -> "Place":
        """Take a place for a refresh that a client's address sends.

        Raises Unavailable, with a time to come back, when all places are taken, or those of the address (of IPv6
        the /64).
        """
        if self._refreshes.total() >= REFRESHES:
            raise self._too_many("refreshes_at_once")
        address = networks_of(host)[0]
        if self._refreshes[address] >= REFRESHES_PER_ADDRESS:
            raise self._too_many("refreshes_at_once_per_address")
        return Place(self._refreshes, address)

    def _too_many(self, limit: str) -> Unavailable:
        self._overloaded()
        metrics.LIMITED.labels(limit).inc()
        return Unavailable(retry_after_seconds=self._come_back())

    def _come_back(self) -> int:
        """Return the seconds after which a refused client may try again.

        Each is given its own moment, one behind the other, because all of them left at the same one: a few come back after a
        second, and five thousand within 25 seconds.
        """
        now = monotonic()
        self._last_back = min(max(now, self._last_back) + 1 / COME_BACK_PER_SECOND, now + COME_BACK_S)
        return math.ceil(self._last_back - now)


class Place:
    """A place among the refreshes in progress."""

    def __init__(self, taken: Counter[str], address: str) -> None:
        self._taken = taken
        self._address = address
        self._left = False
        taken[address] += 1

    def leave(self) -> None:
        """Give the place back. A second time changes nothing."""
        if not self._left:
            self._left = True
            self._taken[self._address] -= 1
            if not self._taken[self._address]:
                del self._taken[self._address]
