"""Which server of the database to use, when DATABASE_URL names several hosts.

One task per host keeps its own connection. Every half second it asks whether the server takes writes, and on which
timeline it is. A promotion begins a new timeline, so of two servers that take writes, the one on the higher timeline is
the primary; the other is an old primary that has not noticed the failover. New connections of the pool go straight to
the primary. When another server becomes the primary, `switched` is called with the connections to all others.

With one host there are no tasks and no further connections: each new connection only asks its server what it is.

The service never returns to a lower timeline than the highest one it has used.
"""

import asyncio
import weakref
from collections.abc import Callable
from typing import Any

import asyncpg

from core.base.addresses import database_urls
from core.base.clock import monotonic, real_sleep
from core.storage.errors import UNREACHABLE
from core.storage.host import ANSWER_S, DatabaseHost, DatabaseServer, ask, host_of
from core.telemetry import logs

CONNECT_S = 5  # to the only host
FIND_S = 2.0  # how long a new connection waits for a server that takes writes
GRACE_S = 0.1  # how long to wait for the other hosts after the first one that takes writes

log = logs.get("database")


class DatabaseServers:
    """The hosts of a URL.

    `switched` is called with the pool's connections to servers that are no longer used, and `new_epoch` when the epoch
    changes.
    """

    def __init__(self, url: str, *, switched: Callable[[list[Any]], None], new_epoch: Callable[[], None]) -> None:
        self._hosts = [DatabaseHost(one, checked=self._choose) for one in database_urls(url)]
        self._switched = switched
        self._new_epoch = new_epoch
        self._used: DatabaseHost | None = None
        self.takes_writes = True  # of the server that answered last
        self._highest = ""
        self._epoch: str | None = None
        self._made: weakref.WeakKeyDictionary[Any, DatabaseHost] = weakref.WeakKeyDictionary()
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def several(self) -> bool:
        """Whether the URL names several hosts."""
        return len(self._hosts) > 1

    @property
    def epoch(self) -> str:
        """The epoch of the server in use (`DatabaseServer.epoch`); an empty text before the first connection."""
        return self._epoch or ""

    def start(self) -> None:
        """Start to watch the hosts, if there are several."""
        if self.several and not self._tasks:
            self._tasks = [asyncio.create_task(host.watch()) for host in self._hosts]

    async def stop(self) -> None:
        """Stop watching and drop the connections for it."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks.clear()

    async def connect(self, _dsn: str | None = None, **options: Any) -> asyncpg.Connection:
        """Connect to the server that takes writes. The pool calls this to open a connection.

        A single host is used whether it takes writes or not. Raises TimeoutError if no host takes writes within FIND_S.
        """
        if not self.several:
            connection = await asyncpg.connect(self._hosts[0].url, timeout=CONNECT_S, **options)
            await self._checked(connection, self._hosts[0])
            return connection
        deadline = monotonic() + FIND_S
        while True:
            host = await self._found(deadline)
            try:
                async with asyncio.timeout(ANSWER_S):
                    connection = await asyncpg.connect(host.url, **options)
                if await self._checked(connection, host):
                    return connection
            except UNREACHABLE as error:
                host.error = type(error).__name__
            self.doubt(host)
            if monotonic() >= deadline:  # it answers on the watching connection, but accepts no new ones
                raise TimeoutError(f"{host_of(host.url)} takes no connection ({host.problem})")

    async def _checked(self, connection: asyncpg.Connection, host: DatabaseHost) -> bool:
        """Check the server of a new connection, and return whether the connection may be used; if not, close it.

        With several hosts, only one to a server that takes writes may be used.
        """
        try:
            server = await ask(connection)
        except BaseException:
            connection.terminate()
            raise
        if self.several and (not server.writable or server.timeline < self._highest):
            connection.terminate()
            return False
        self._made[connection] = host
        self.note(server)
        return True

    async def url(self) -> str:
        """Return the URL of the host that takes writes, for tools that open their own connection.

        Raises TimeoutError if no host does so within FIND_S.
        """
        return (await self._found(monotonic() + FIND_S) if self.several else self._hosts[0]).url

    async def _found(self, deadline: float) -> DatabaseHost:
        """Wait for a host that takes writes, and return it.

        Raises TimeoutError after the deadline.
        """
        while self._used is None or self._used.server is None:
            self._news.clear()
            try:
                async with asyncio.timeout(max(0.0, deadline - monotonic())):
                    await self._news.wait()
            except TimeoutError:
                problems = ", ".join(f"{host_of(host.url)}: {host.problem}" for host in self._hosts)
                raise TimeoutError(f"no host of DATABASE_URL takes writes ({problems})") from None
        return self._used

    def doubt(self, doubted: DatabaseHost) -> None:
        """Check all hosts again now, and open no connection to this one before it has answered."""
        doubted.server = None
        for host in self._hosts:
            host.check_now()

    def doubt_used(self) -> None:
        """Doubt the server in use, because it has refused a write."""
        if self.several and self._used is not None:
            self.doubt(self._used)

    async def _choose(self) -> None:
        """Use the server that takes writes on the highest timeline. Prefer the present one if it is among them."""
        if self._used is None and not all(host.was_checked for host in self._hosts) and self._best() is not None:
            await real_sleep(GRACE_S)  # the first to answer may be an old primary
        found = self._best()
        if found is None:
            return
        best, server = found
        if best is not self._used:
            if self._used is not None:
                log.warning("switched to another database server", host=host_of(best.url))
            self._used = best
            self._switched([connection for connection, host in list(self._made.items()) if host is not best])
        self.note(server)
        self._news.set()

    def _best(self) -> tuple[DatabaseHost, DatabaseServer] | None:
        able = [
            (host, host.server)
            for host in self._hosts
            if host.server is not None and host.server.writable and host.server.timeline >= self._highest
        ]
        return max(able, key=lambda one: (one[1].timeline, one[0] is self._used, one[0].url), default=None)

    def note(self, server: DatabaseServer) -> None:
        """Store the epoch of the server in use. With several hosts, ignore servers that don't take writes."""
        self.takes_writes = server.writable
        if self.several:
            if not server.writable:
                return
            self._highest = max(self._highest, server.timeline)
        if not server.primary and self._epoch is not None:
            return
        before, self._epoch = self._epoch, server.epoch
        if before is not None and before != self._epoch:
            log.warning("the database has a new history: the latest commits may be lost", epoch=self._epoch)
            self._new_epoch()


async def writable_url(url: str) -> str:
    """Return the URL of the host that takes writes, for a command that opens its own connection.

    The URL of a single host is returned unchanged. Raises TimeoutError if no host takes writes.
    """
    servers = DatabaseServers(url, switched=lambda _: None, new_epoch=lambda: None)
    servers.start()
    try:
        return await servers.url()
    finally:
        await servers.stop()
