"""The pool of connections.

Every connection has its own timeouts, so that a frozen server, a held lock or a killed process blocks others only
briefly (docs/architecture.md#transactions).
"""

import asyncio
import contextlib
import contextvars
import types
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from typing import Any, TypeVar

import asyncpg
import attrs
import msgspec
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from core.base.clock import monotonic, real_sleep
from core.storage.errors import CONNECTION_ERRORS, TRANSIENT_ERRORS, lost_as_such
from core.telemetry import metrics

ROLLBACK_S = 1.0
RETRIES = 3
COMMAND_TIMEOUT_S = 4.5  # above statement_timeout, so that the server's own error comes first
UNUSED_S = 60.0  # after which a connection is closed
T = TypeVar("T")
ACCEPTED_BY_POOLERS = ("application_name", "timezone")  # PgBouncer refuses a connection with any other setting
TIMEOUTS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
SERVER_SETTINGS = {
    "application_name": "sesi",
    "timezone": "UTC",
    "statement_timeout": "4000",
    "lock_timeout": "3000",
    "idle_in_transaction_session_timeout": "8000",
    "jit": "off",
}
FIRST_OWN_OID = 16_384  # types with lower ids are built in: the same in every database
DESCRIBED: dict[frozenset[int], Any] = {}  # what `PooledConnection` has read
# For asyncpg, which asks for the name of the statement that reads it.
ALREADY_DESCRIBED = types.SimpleNamespace(name="described")
GIVE_BACK_S = 1.0
# After which a connection goes through the pool, which resets it and replaces worn ones; unused, after twice that.
KEPT_S = 10.0


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
    """The connections that a pool has lent, and those of them that are free. The one used last is lent first.

    They stay lent between two uses: the pool's reset and its tasks cost more than a short statement. Every borrower
    takes a kept connection before it asks the pool, so a kept connection is as free as one in the pool. While a
    borrower waits for the pool, connections are given back to it, and the pool serves its waiters in order of arrival.
    """

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
        """Keep a connection whose statements have succeeded.

        Give it back instead if a borrower waits, or if it has been lent for long.
        """
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


@attrs.frozen(kw_only=True)
class Sessions:
    """The settings of a pool's sessions (milliseconds for timeouts), and how the server gets them.

    A connection pooler (`through_pooler`) lends a server connection for one transaction. Settings of a session would be
    refused, or would reach other clients, so each transaction sets them again. Prepared statements are unnamed there,
    because another transaction may run on another server connection.
    """

    settings: Mapping[str, str] = attrs.field(factory=lambda: SERVER_SETTINGS)
    through_pooler: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """The options of a new connection."""
        if not self.through_pooler:
            return {"server_settings": dict(self.settings)}
        accepted = {name: self.settings[name] for name in ACCEPTED_BY_POOLERS}
        return {"server_settings": accepted, "statement_cache_size": 0}

    @property
    def begin(self) -> str:
        """The statements that begin a transaction. They are sent together, in one round trip."""
        if not self.through_pooler:
            return "BEGIN"
        local = (name for name in self.settings if name not in ACCEPTED_BY_POOLERS)
        return "; ".join(["BEGIN", *(f"SET LOCAL {name} = '{self.settings[name]}'" for name in local)])

    @contextlib.asynccontextmanager
    async def statements(self, connection: Any) -> AsyncIterator[None]:
        """Run single statements: each commits on its own, or all in one transaction if only a transaction can have
        settings."""
        if self.through_pooler:
            await connection.execute(self.begin)
        yield
        if self.through_pooler:
            await connection.execute("COMMIT")

    def with_timeouts(self, seconds: float) -> "Sessions":
        """Return the same settings with other timeouts."""
        return attrs.evolve(self, settings={**self.settings, **dict.fromkeys(TIMEOUTS, str(round(seconds * 1000)))})


DIRECT = Sessions()


def _encode_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


class PooledConnection(asyncpg.Connection):
    """A connection that reads the description of a built-in type only if no other one of this process has read it.

    asyncpg reads that of each array type again for each connection, with two statements that are dear to plan.
    """

    async def _introspect_types(self, typeoids: Collection[int], timeout: float) -> tuple[Any, Any]:
        wanted = frozenset(typeoids)
        if wanted in DESCRIBED:
            return DESCRIBED[wanted], ALREADY_DESCRIBED
        found, statement = await super()._introspect_types(typeoids, timeout)
        if max(wanted) < FIRST_OWN_OID:
            DESCRIBED[wanted] = found
        return found, statement


async def set_up(connection: asyncpg.Connection) -> None:
    """Make asyncpg convert jsonb columns to and from Python values."""
    await connection.set_type_codec("jsonb", encoder=_encode_json, decoder=msgspec.json.decode, schema="pg_catalog")


async def _reset(connection: asyncpg.Connection) -> None:
    """Clean a connection for the pool. We change no session settings, so only an open transaction can be left over."""
    if connection.is_in_transaction():
        await connection.execute("ROLLBACK")


def drop(connection: Any) -> None:
    """Close a connection at once, without waiting for the server. Ignore one that is closed already."""
    with contextlib.suppress(asyncpg.InterfaceError):
        connection.terminate()


async def open_pool(connect: Any, *, name: str, size: int, least: int, sessions: Sessions) -> "MeasuredPool":
    """Open a pool of `least` to `size` connections, which `connect` makes with the options of `sessions`."""
    with lost_as_such():
        pool = await asyncpg.create_pool(
            connect=connect,
            connection_class=PooledConnection,
            min_size=least,
            max_size=size,
            init=set_up,
            reset=_reset,
            command_timeout=COMMAND_TIMEOUT_S,
            max_inactive_connection_lifetime=UNUSED_S - 2 * KEPT_S,  # it was kept before for at most 2 * KEPT_S
            **sessions.options,
        )
    return MeasuredPool(name, pool)


class MeasuredPool:
    """A pool of connections whose use is a metric, with those that it keeps. `name` is its label."""

    def __init__(self, name: str, pool: asyncpg.Pool) -> None:
        self.name = name
        self._pool = pool
        self._kept = KeptConnections(pool)
        self._wait = metrics.POOL_WAIT.labels(name)
        self.get_size = pool.get_size
        self.get_max_size = pool.get_max_size
        self.keep = self._kept.keep
        self.give_back = self._kept.give_back
        OPEN_POOLS.add(self)

    async def take(self, *, timeout_s: float | None = None) -> Any:
        """Take a connection; end its use with `keep` or `give_back`. Raises TimeoutError after `timeout_s` seconds."""
        began = monotonic()
        try:
            return await self._kept.take(timeout_s=timeout_s)
        finally:
            self._wait.observe(monotonic() - began)

    @contextlib.asynccontextmanager
    async def acquire(self, *, timeout: float | None = None) -> AsyncIterator[Any]:
        """Lend a connection for a block. Raises TimeoutError after `timeout` seconds without one."""
        connection = await self.take(timeout_s=timeout)
        try:
            yield connection
        finally:
            await self.give_back(connection)

    def get_idle_size(self) -> int:
        """Return how many open connections are free."""
        return self._pool.get_idle_size() + self._kept.free

    async def expire_connections(self) -> None:
        """Replace every connection after its present use."""
        await self._pool.expire_connections()
        await self._kept.give_back_all()

    async def close(self) -> None:
        """Close the connections when their use has ended."""
        self._kept.stop()
        await self._kept.give_back_all()
        await self._pool.close()

    def terminate(self) -> None:
        """Close all connections at once."""
        self._kept.stop()
        self._pool.terminate()


OPEN_POOLS: "weakref.WeakSet[MeasuredPool]" = weakref.WeakSet()


class PoolUse(Collector):
    """The connections of this process's pools, counted when the metrics are read."""

    def describe(self) -> list[GaugeMetricFamily]:
        """Return the families without samples."""
        connections = GaugeMetricFamily(
            "sesi_database_pool_connections",
            "Open connections of a pool. The pool is `write`, `messages` (of the realtime process), `lease`, `read` "
            "(to the replica) or `positions` (of the log, for the replica's lag); the state is `busy` or `idle`.",
            labels=["pool", "state"],
        )
        size = GaugeMetricFamily("sesi_database_pool_size", "Connections that a pool may open.", labels=["pool"])
        return [connections, size]

    def collect(self) -> list[GaugeMetricFamily]:
        """Return the families with one sample for each pool."""
        connections, size = self.describe()
        used: Counter[tuple[str, str]] = Counter()
        sizes: Counter[str] = Counter()
        for one in list(OPEN_POOLS):
            idle = one.get_idle_size()
            used[one.name, "idle"] += idle
            used[one.name, "busy"] += one.get_size() - idle
            sizes[one.name] += one.get_max_size()
        for labels, value in used.items():
            connections.add_metric(labels, value)
        for name, value in sizes.items():
            size.add_metric([name], value)
        return [connections, size]


metrics.REGISTRY.register(PoolUse())


async def retry(work: Callable[[], Awaitable[T]]) -> T:
    """Do the work, and repeat it on another connection while one is lost.

    It is not repeated after a TimeoutError: the server is frozen, not gone, and the caller would only wait longer.
    """
    for attempt in range(RETRIES):
        try:
            return await work()
        except TimeoutError:
            raise
        except CONNECTION_ERRORS:
            await real_sleep(0.02 * 4**attempt)
    return await work()


async def roll_back(connection: Any) -> None:
    """Roll back.

    If the server does not answer within ROLLBACK_S, drop the connection: the server then rolls back.
    """
    try:
        with lost_as_such():
            await connection.execute("ROLLBACK", timeout=ROLLBACK_S)
    except (TimeoutError, asyncio.CancelledError) as error:
        drop(connection)
        if isinstance(error, asyncio.CancelledError):
            raise
    except TRANSIENT_ERRORS:
        pass
