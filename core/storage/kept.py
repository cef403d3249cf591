"""Connections that stay lent by a pool between two uses: the pool's reset and its tasks cost more than a short statement.

Every borrower takes a kept connection before it asks the pool, so a kept connection is as free as one in the pool. While
a borrower waits for the pool, connections are given back to it, and the pool serves its waiters in order of arrival.
"""

import asyncio
import contextlib
import contextvars
from typing import Any

import asyncpg

from core.base.clock import monotonic

GIVE_BACK_S = 1.0
KEPT_S = 10.0  # after which a connection goes through the pool, which resets it and replaces worn ones; unused, after twice that


async def give_back(pool: asyncpg.Pool, connection: Any) -> None:
    """Return a connection to the pool. Ignore errors: the pool replaces a broken one, and its work is done."""
    with contextlib.suppress(Exception):
        await asyncio.shield(pool.release(connection, timeout=GIVE_BACK_S))


def _is_clean(connection: Any) -> bool:
    """Return whether a connection is open and without a transaction. That of a lost server has left the pool."""
    try:
        return not connection.is_closed() and not connection.is_in_transaction()
    except asyncpg.InterfaceError:
        return False


class KeptConnections:
    """The connections that a pool has lent, and those of them that are free. The one used last is lent first."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._free: list[Any] = []
        self._lent: dict[Any, float] = {}  # connection -> when the pool lent it, on the monotonic clock
        self._waiting = 0
        self._expiries = 0
        self._context = contextvars.copy_context()  # not that of the request that starts the sweep
        self._ends = False
        self._sweep: asyncio.TimerHandle | None = None
        self._returns: set[asyncio.Task[None]] = set()

    @property
    def free(self) -> int:
        """How many connections are kept and free."""
        return sum(map(_is_clean, self._free))

    async def take(self, *, timeout_s: float | None = None) -> Any:
        """Take a kept connection, or one of the pool. Raises TimeoutError after `timeout_s` seconds without one."""
        while self._free:
            connection = self._free.pop()
            if _is_clean(connection):
                return connection
            await self.give_back(connection)
        self._waiting += 1
        expiries = self._expiries
        try:
            connection = await self._pool.acquire(timeout=timeout_s)
        finally:
            self._waiting -= 1
        if expiries == self._expiries:  # otherwise it may have been opened before, and goes back after its use
            self._lent[connection] = monotonic()
        return connection

    async def keep(self, connection: Any) -> None:
        """Keep a connection whose statements have succeeded, or give it back if a borrower waits or it is lent for long."""
        lent_at = self._lent.get(connection)
        if (
            lent_at is None
            or self._waiting
            or self._ends
            or monotonic() > lent_at + KEPT_S
            or not _is_clean(connection)
        ):
            await self.give_back(connection)
            return
        self._free.append(connection)
        if self._sweep is None:
            self._sweep = self._sweep_later()

    async def give_back(self, connection: Any) -> None:
        """Return a connection to the pool, which resets it."""
        self._lent.pop(connection, None)
        await give_back(self._pool, connection)

    async def give_back_all(self) -> None:
        """Return the free connections to the pool, and the others after their use."""
        self._expiries += 1
        free, self._free, self._lent = self._free, [], {}
        async with asyncio.TaskGroup() as group:
            for connection in free:
                group.create_task(give_back(self._pool, connection))

    def _sweep_later(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(KEPT_S, self._return_old, context=self._context)

    def _return_old(self) -> None:
        """Return free connections that were lent KEPT_S ago, so that the pool closes those without use."""
        self._sweep = None
        now = monotonic()
        free, self._free = self._free, []
        for connection in free:
            if now < self._lent[connection] + KEPT_S:
                self._free.append(connection)
                continue
            task = asyncio.create_task(self.give_back(connection))
            self._returns.add(task)
            task.add_done_callback(self._returns.discard)
        if self._free:
            self._sweep = self._sweep_later()

    def stop(self) -> None:
        """Keep no more connections, because the pool closes."""
        self._ends = True
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
