"""How many requests a listener works on at once. One more is refused at once, so that those before it are answered in time."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterator

from core.base import metrics
from core.base.addresses import networks_of
from core.base.errors import Unavailable

REQUESTS = 512  # in progress on a listener; each of 20 connections to the database then has a queue of about a second
REFRESHES_AT_ONCE = 6  # of 20 connections to the database: the others stay free for webhooks and signed-in users
REFRESHES = 256  # in progress or waiting: about half a second of work
REFRESHES_PER_ADDRESS = 64  # a quarter: a storm behind one address leaves the other places to the other addresses
COME_BACK_S = 10  # clients come back after 1 to this many seconds, spread, because they all left at the same moment


class Admission:
    """Counts the requests in progress of one listener of a process."""

    def __init__(self, *, overloaded: Callable[[], None]) -> None:
        """`overloaded` is called for each request that is refused."""
        self._overloaded = overloaded
        self._requests = 0
        self._refreshes: Counter[str] = Counter()  # the places taken by each address: at most REFRESHES entries
        self.refreshing = asyncio.Semaphore(REFRESHES_AT_ONCE)  # for those that have a place

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Work on a request. Raises Unavailable, with a spread time to come back, when there are too many."""
        if self._requests >= REQUESTS:
            raise self._too_many("http_requests")
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    def refresh(self, host: str) -> "Place":
        """Take a place for a refresh that a client's address sends.

        Raises Unavailable, with a spread time to come back, when all places are taken, or those of the address (of IPv6
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
        return Unavailable(retry_after_seconds=random.randint(1, COME_BACK_S))  # noqa: S311 - it spreads load


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
