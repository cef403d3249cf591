"""The database of a process: reads that retry, and write transactions (docs/architecture.md#transactions).

If the answer to a COMMIT is lost, the outcome is unknown: the rows may be stored. So callers must not report
"not stored" in that case, and every write must be safe to repeat.

Every error of an unreachable or overloaded database is raised as Unavailable, so that no caller can forget it.
"""

import asyncio
import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg

from core.base.clock import monotonic
from core.storage.errors import TRANSIENT_ERRORS, as_unavailable, lost_as_such
from core.storage.host import ask, read_clock, server_of
from core.storage.pool import DIRECT, MeasuredPool, Sessions, drop, open_pool, retry, roll_back
from core.storage.servers import DatabaseServers
from core.storage.transaction import Tx

ACQUIRE_TIMEOUT_S = 4.0
DEADLINE_S = 4.5  # for a whole read with its retries, so that requests are answered within 5 s
SEEK_EVERY_S = 1.0  # at most one new connection in this time, however many writes a read-only server refuses


class Database:
    """One connection pool of a process."""

    pool: MeasuredPool

    def __init__(self, url: str, *, sessions: Sessions = DIRECT, servers: DatabaseServers | None = None) -> None:
        self._url = url
        self._sessions = sessions
        self._owns_servers = servers is None
        self._servers = servers or DatabaseServers(url, switched=self._switched, new_epoch=self._new_epoch)
        self._sought_at = -SEEK_EVERY_S
        self._seeking: asyncio.Task[None] | None = None
        self._epoch_subscribers: list[Callable[[], None]] = []

    @classmethod
    async def connect(cls, url: str, *, size: int, through_pooler: bool = False, name: str = "write") -> "Database":
        """Open a pool of at most `size` connections. If the URL names several servers, use the one that takes writes.

        `through_pooler`: the URL leads to a PgBouncer in transaction mode. `name` is the pool's label in metrics.
        Raises TimeoutError if no server takes writes.
        """
        database = cls(url, sessions=Sessions(through_pooler=through_pooler))
        database._servers.start()
        try:
            database.pool = await open_pool(
                database._servers.connect, name=name, size=size, least=min(2, size), sessions=database._sessions
            )
        except BaseException:
            await database._servers.stop()
            raise
        return database

    @classmethod
    async def lazy(cls, url: str, *, size: int, through_pooler: bool = False) -> "Database":
        """Return a pool of at most `size` connections to the only host of a URL, which connects at its first use."""
        sessions = Sessions(through_pooler=through_pooler)
        database = cls(url, sessions=sessions)
        database.pool = await open_pool(database._servers.connect, name="read", size=size, least=0, sessions=sessions)
        return database

    async def separate(self, *, name: str, statement_s: float) -> "Database":
        """Return a pool with a separate connection to the same server, which other work can't occupy.

        It connects at its first use, and the server cancels a statement after `statement_s` seconds. Close it before
        this one.
        """
        sessions = self._sessions.with_timeouts(statement_s)
        other = Database(self._url, sessions=sessions, servers=self._servers)
        other.pool = await open_pool(self._servers.connect, name=name, size=1, least=0, sessions=sessions)
        return other

    async def close(self) -> None:
        """Close all connections, and drop those whose server does not answer."""
        if self._seeking is not None:
            self._seeking.cancel()
        if self._owns_servers:
            await self._servers.stop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.pool.close(), 1.5)
            return
        self.pool.terminate()

    @property
    def several_hosts(self) -> bool:
        """Whether the URL names several hosts."""
        return self._servers.several

    @property
    def epoch(self) -> str:
        """An opaque mark of the database's history, which changes after a failover or a restore."""
        return self._servers.epoch

    def subscribe_to_new_epoch(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever the epoch changes."""
        self._epoch_subscribers.append(callback)

    def _new_epoch(self) -> None:
        for callback in self._epoch_subscribers:
            callback()

    def _switched(self, connections: list[asyncpg.Connection]) -> None:
        """Drop the connections to servers that are no longer used, so that their statements fail now."""
        for connection in connections:
            connection.terminate()

    def _seek_writable(self) -> None:
        """Look for a server that takes writes, because the present one refused a write; at most every SEEK_EVERY_S."""
        if monotonic() >= self._sought_at + SEEK_EVERY_S:
            self._sought_at = monotonic()
            self._seeking = asyncio.create_task(self._find_writable())

    async def _find_writable(self) -> None:
        """Open one connection. If its server takes writes, replace every other connection at its next use."""
        self._servers.doubt_used()
        with contextlib.suppress(*TRANSIENT_ERRORS, asyncpg.PostgresError, asyncpg.InterfaceError):
            drop(await self._servers.connect(**self._sessions.options))
            if self._servers.takes_writes:
                await self.pool.expire_connections()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Lend a connection for one or a few statements, with one deadline for all.

        Each statement commits on its own. Through a pooler they are one transaction, which ends with the block.

        A connection whose statement timed out or was cancelled is dropped: the server may be frozen, and waiting for
        its confirmation could take as long again. Raises Unavailable.
        """
        with as_unavailable():
            async with self._lent() as connection:
                yield connection

    @contextlib.asynccontextmanager
    async def _lent(self) -> AsyncIterator[Any]:
        """Lend a connection, and raise the errors of the database as they are."""
        with lost_as_such():
            async with asyncio.timeout(DEADLINE_S):
                connection = await self.pool.take()
                try:
                    async with self._sessions.statements(connection):
                        yield connection
                except BaseException as error:
                    await self._give_up(connection, error)
                    raise
                await self.pool.give_back(connection)

    async def _give_up(self, connection: Any, error: BaseException) -> None:
        """Return a connection after an error of its statement."""
        if isinstance(error, TimeoutError | asyncio.CancelledError):
            drop(connection)
        elif isinstance(error, asyncpg.ReadOnlySQLTransactionError):
            self._seek_writable()
        await self.pool.give_back(connection)

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        """Return rows. Retry on another connection if one is lost. Raises Unavailable, at the latest at the
        deadline.
        """
        with as_unavailable():
            return await retry(lambda: self._fetch_once(sql, *args))

    async def fetch_once(self, sql: str, *args: Any) -> list[Any]:
        """Return rows of a statement that may also write, without a retry. It commits on its own.

        Raises Unavailable; then it may have been committed.
        """
        with as_unavailable():
            return await self._fetch_once(sql, *args)

    async def _fetch_once(self, sql: str, *args: Any) -> list[Any]:
        """Return rows, and keep the connection: a single statement leaves no state."""
        if self._sessions.through_pooler:
            async with self._lent() as connection:
                return await connection.fetch(sql, *args)
        with lost_as_such():
            async with asyncio.timeout(DEADLINE_S):
                connection = await self.pool.take()
                try:
                    rows = await connection.fetch(sql, *args)
                except BaseException as error:
                    await self._give_up(connection, error)
                    raise
                await self.pool.keep(connection)
                return rows

    async def fetchrow(self, sql: str, *args: Any) -> Any:
        """Return the first row, or None. Raises Unavailable."""
        rows = await self.fetch(sql, *args)
        return rows[0] if rows else None

    async def fetchval(self, sql: str, *args: Any) -> Any:
        """Return the first column of the first row, or None. Raises Unavailable."""
        rows = await self.fetch(sql, *args)
        return rows[0][0] if rows else None

    async def _begin(self) -> Any:
        with lost_as_such():
            connection = await self.pool.take(timeout_s=ACQUIRE_TIMEOUT_S)
            try:
                await connection.execute(self._sessions.begin)
            except BaseException as error:
                await self._give_up(connection, error)
                raise
            return connection

    @contextlib.asynccontextmanager
    async def transaction(self, clock: Callable[[], dt.datetime]) -> AsyncIterator[Tx]:
        """Open a transaction. Commit when the block ends; roll back if it raises. `clock` returns service time.

        It retries its beginning on another connection. Raises Unavailable, also for errors within the block; then the
        transaction may have been committed.
        """
        with as_unavailable():
            async with self._transaction(clock) as tx:
                yield tx

    @contextlib.asynccontextmanager
    async def _transaction(self, clock: Callable[[], dt.datetime]) -> AsyncIterator[Tx]:
        connection = await retry(self._begin)
        tx = Tx(connection, clock)
        try:
            with lost_as_such():
                try:
                    yield tx
                except (TimeoutError, asyncio.CancelledError):
                    drop(connection)  # the server rolls back; waiting for its answer could take as long again
                    raise
                except BaseException as error:
                    if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
                        self._seek_writable()
                    await roll_back(connection)
                    raise
                try:
                    await connection.execute("COMMIT")
                except (TimeoutError, asyncio.CancelledError):
                    drop(connection)  # whether it was committed is unknown
                    raise
        except BaseException:
            tx.end()
            await self.pool.give_back(connection)
            raise
        tx.end()
        await self.pool.keep(connection)

    async def is_writable(self) -> bool:
        """Return whether the server takes writes now. Store its epoch, which changes when a standby is promoted."""
        async with self.connection() as connection:
            server = await ask(connection)
        self._servers.note(server)
        return server.writable

    def note_server(self, row: Any) -> None:
        """Store the epoch of the server that has answered with the columns SERVER, among others."""
        self._servers.note(server_of(row))

    async def clock(self) -> tuple[dt.datetime, float]:
        """Return (the database's time, our monotonic time in seconds at that moment)."""
        async with self.connection() as connection:
            return await read_clock(connection)
