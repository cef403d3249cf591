"""How many requests a listener works on at once. One more is refused at once, so that those before it are answered in time."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterator

from core.base import metrics
from core.base.errors import Unavailable

REQUESTS = 512  # in progress on a listener; each of 20 connections to the database then has a queue of about a second
REFRESHES_AT_ONCE = 6  # of 20 connections to the database: the others stay free for webhooks and signed-in users
REFRESHES = 256  # in progress or waiting: about a second of work
COME_BACK_S = 10  # clients come back after 1 to this many seconds, spread, because they all left at the same moment


class Admission:
    """Counts the requests in progress of one listener of a process."""

    def __init__(self, *, overloaded: Callable[[], None]) -> None:
        """`overloaded` is called for each request that is refused."""
        self._overloaded = overloaded
        self._requests = 0
        self._refreshes = 0
        self._refreshing = asyncio.Semaphore(REFRESHES_AT_ONCE)

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

    @contextlib.asynccontextmanager
    async def refresh(self) -> AsyncIterator[None]:
        """Wait for a place, then work on a refresh. Raises Unavailable when too many wait."""
        if self._refreshes >= REFRESHES:
            raise self._too_many("refreshes_at_once")
        self._refreshes += 1
        try:
            async with self._refreshing:
                yield
        finally:
            self._refreshes -= 1

    def _too_many(self, limit: str) -> Unavailable:
        self._overloaded()
        metrics.LIMITED.labels(limit).inc()
        return Unavailable(retry_after_seconds=random.randint(1, COME_BACK_S))  # noqa: S311 - it spreads load
