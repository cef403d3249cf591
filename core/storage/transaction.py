"""The write transaction, with what is published and counted after its commit, and the interface that reads need
(docs/architecture.md#transactions)."""

import contextlib
import datetime as dt
import functools
from collections.abc import Callable
from typing import Any, Protocol

import asyncpg
from prometheus_client import Counter, Histogram

from core.events.changes import Change
from core.events.notices import Envelope
from core.events.signals import Signal
from core.storage.errors import CONNECTION_ERRORS

# Around a statement that may fail (`Tx.attempt`): it has half a second, and then the transaction has its timeout again.
SAVEPOINT = """SAVEPOINT attempt;
SELECT set_config('sesi.statement_timeout', current_setting('statement_timeout'), true);
SET LOCAL statement_timeout = '500ms'"""
RELEASE = """RELEASE SAVEPOINT attempt;
SELECT set_config('statement_timeout', current_setting('sesi.statement_timeout'), true)"""
ROLL_BACK = "ROLLBACK TO SAVEPOINT attempt; RELEASE SAVEPOINT attempt"


class Reader(Protocol):
    """Runs SELECT statements. A transaction and the database both do."""

    async def fetch(self, sql: str, *args: Any) -> list[Any]: ...
    async def fetchrow(self, sql: str, *args: Any) -> Any: ...
    async def fetchval(self, sql: str, *args: Any) -> Any: ...


# What the domains above do before and after a change, in its transaction.
Port = Callable[["Tx", Change], contextlib.AbstractAsyncContextManager[None]]


def no_port(_tx: "Tx", change: Change) -> contextlib.AbstractAsyncContextManager[None]:
    """Refuse a change in which domains above take part: this transaction knows none."""
    raise RuntimeError(f"open the runtime by core/app/reactions.py, so that others take part in {change}")


class NoConnection:
    """What an ended transaction has instead of a connection."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("the transaction has ended, and another one may use its connection")


ENDED = NoConnection()


class Tx:
    """An open transaction, with what is published and counted after its commit (`outgoing`, `signals`, `counts`)."""

    def __init__(self, connection: Any, clock: Callable[[], dt.datetime]) -> None:
        self._connection = connection
        self._clock = clock
        self._event_time: dt.datetime | None = None
        self.port: Port = no_port
        self.outgoing = Envelope()
        self.signals: list[Signal] = []
        self.counts: list[Callable[[], None]] = []

    @functools.cached_property
    def now(self) -> dt.datetime:
        """The transaction's service time, fixed at the first use.

        Take locks first. Then a change never has an earlier time than the change that it has waited for, and the wait
        for a connection or a lock takes nothing from a customer's minutes.
        """
        return self._clock()

    async def event_time(self) -> dt.datetime:
        """Return the time of the transaction's events, by the database's clock, fixed at the first use.

        Take locks first. Then it is later than the events of every change that this transaction has waited for.
        """
        at = self._event_time
        if at is None:
            at = self._event_time = await self.fetchval("SELECT clock_timestamp()")
        return at

    def end(self) -> None:
        """Give the connection up. Statements raise RuntimeError from now on."""
        self._connection = ENDED

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        """Run a statement and return its rows."""
        return await self._connection.fetch(sql, *args)

    async def fetchrow(self, sql: str, *args: Any) -> Any:
        """Run a statement and return its first row, or None."""
        return await self._connection.fetchrow(sql, *args)

    async def fetchval(self, sql: str, *args: Any) -> Any:
        """Run a statement and return the first column of its first row, or None."""
        return await self._connection.fetchval(sql, *args)

    async def execute(self, sql: str, *args: Any) -> int:
        """Run a statement and return how many rows it touched."""
        status: str = await self._connection.execute(sql, *args)
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def attempt(self, sql: str, *args: Any) -> asyncpg.PostgresError | None:
        """Run a statement without which the transaction goes on, for at most half a second. Return its error, if any.

        Raises the errors of a lost connection.
        """
        await self._connection.execute(SAVEPOINT)
        try:
            await self._connection.execute(sql, *args)
        except CONNECTION_ERRORS:
            raise
        except asyncpg.PostgresError as error:
            await self._connection.execute(ROLL_BACK)
            return error
        await self._connection.execute(RELEASE)
        return None

    def during(self, change: Change) -> contextlib.AbstractAsyncContextManager[None]:
        """Return a context in which the change is made: the domains above act before and after it."""
        return self.port(self, change)

    async def tell(self, change: Change) -> None:
        """Let the domains above act on a change that was made."""
        async with self.during(change):
            pass

    def emit(self, signal: Signal) -> None:
        """Publish a signal to the other processes after the commit."""
        self.signals.append(signal)

    def count(self, counter: Counter, amount: float = 1) -> None:
        """Add to a metric after the commit."""
        self.counts.append(functools.partial(counter.inc, amount))

    def observe(self, histogram: Histogram, value: float) -> None:
        """Add a value to a metric after the commit."""
        self.counts.append(functools.partial(histogram.observe, value))
