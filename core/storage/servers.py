"""Which server of the database to use, when DATABASE_URL names several hosts.

One task per host keeps its own connection. Every half second it asks whether the server takes writes, and on which
timeline it is. A promotion begins a new timeline, so of two servers that take writes, the one on the higher timeline is
the primary; the other is an old primary that has not noticed the failover. New connections of the pool go straight to
the primary. When another server becomes the primary, `switched` is called with the connections to all others.

With one host there are no tasks and no further connections: each new connection only asks its server what it is.

The service never returns to a lower timeline than the highest one it has used.
"""

import asyncio
import contextlib
import weakref
from collections.abc import Callable
from typing import Any

import asyncpg

from core.base import logs
from core.base.addresses import database_urls
from core.base.clock import monotonic, real_sleep
from core.storage.errors import UNREACHABLE
from core.storage.host import ANSWER_S, Server, ask, host_of

CONNECT_S = 5  # to the only host
LOOK_S = 0.5  # between two checks of a host
FIND_S = 2.0  # how long a new connection waits for a server that takes writes
GRACE_S = 0.1  # how long to wait for the other hosts after the first one that takes writes
log = logs.get("database")


class Servers:
    """The hosts of a URL.

    `switched` is called with the pool's connections to servers that are no longer used, and `new_epoch` when the epoch
    changes.
    """

    def __init__(self, url: str, *, switched: Callable[[list[Any]], None], new_epoch: Callable[[], None]) -> None:
        self._urls = database_urls(url)
        self._switched = switched
        self._new_epoch = new_epoch
        self._said: dict[str, Server] = {}  # URL -> last answer, for the hosts that answer
        self._asked: set[str] = set()  # URLs of the hosts that have answered or failed since the start
        self._errors: dict[str, str] = {}
        self._used: str | None = None
        self.takes_writes = True  # of the server that answered last
        self._highest = ""
        self._epoch: str | None = None
        self._made: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._news = asyncio.Event()
        self._hurry = {url: asyncio.Event() for url in self._urls}
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def several(self) -> bool:
        """Whether the URL names several hosts."""
        return len(self._urls) > 1

    @property
    def epoch(self) -> str:
        """The epoch of the server in use (see `Server.epoch`); an empty text before the first connection."""
        return self._epoch or ""

    def start(self) -> None:
        """Start to watch the hosts, if there are several."""
        if self.several and not self._tasks:
            self._tasks = [asyncio.create_task(self._watch(url)) for url in self._urls]

    async def stop(self) -> None:
        """Stop watching and drop the connections for it."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks.clear()

    # -- connections

    async def connect(self, _dsn: str | None = None, **options: Any) -> asyncpg.Connection:
        """Connect to the server that takes writes. The pool calls this to open a connection.

        A single host is used whether it takes writes or not. Raises TimeoutError if no host takes writes within FIND_S.
        """
        if not self.several:
            connection = await asyncpg.connect(self._urls[0], timeout=CONNECT_S, **options)
            await self._checked(connection, self._urls[0])
            return connection
        deadline = monotonic() + FIND_S
        while True:
            url = await self._found(deadline)
            try:
                async with asyncio.timeout(ANSWER_S):
                    connection = await asyncpg.connect(url, **options)
                if await self._checked(connection, url):
                    return connection
            except UNREACHABLE as error:
                self._errors[url] = type(error).__name__
            self.doubt(url)
            if monotonic() >= deadline:  # it answers on the watching connection, but accepts no new ones
                raise TimeoutError(f"{host_of(url)} takes no connection ({self._errors.get(url, 'takes no writes')})")

    async def _checked(self, connection: asyncpg.Connection, url: str) -> bool:
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
        self._made[connection] = url
        self.note(server)
        return True

    async def url(self) -> str:
        """Return the URL of the host that takes writes, for tools that open their own connection.

        Raises TimeoutError if no host does so within FIND_S.
        """
        return await self._found(monotonic() + FIND_S) if self.several else self._urls[0]

    async def _found(self, deadline: float) -> str:
        """Wait for a server that takes writes, and return its URL.

        Raises TimeoutError after the deadline.
        """
        while self._used is None or self._used not in self._said:
            self._news.clear()
            try:
                async with asyncio.timeout(max(0.0, deadline - monotonic())):
                    await self._news.wait()
            except TimeoutError:
                said = ", ".join(f"{host_of(url)}: {self._errors.get(url, 'takes no writes')}" for url in self._urls)
                raise TimeoutError(f"no host of DATABASE_URL takes writes ({said})") from None
        return self._used

    def doubt(self, url: str) -> None:
        """Check all hosts again now, and open no connection to this one before it has answered."""
        self._said.pop(url, None)
        for hurry in self._hurry.values():
            hurry.set()

    def doubt_used(self) -> None:
        """Doubt the server in use, because it has refused a write."""
        if self.several and self._used is not None:
            self.doubt(self._used)

    # -- watching the servers

    async def _watch(self, url: str) -> None:
        """Check one host every LOOK_S, until cancelled."""
        connection: asyncpg.Connection | None = None
        try:
            while True:
                self._hurry[url].clear()
                try:
                    async with asyncio.timeout(ANSWER_S):
                        if connection is None or connection.is_closed():
                            connection = await asyncpg.connect(url, server_settings={"application_name": "sesi watch"})
                        server = await ask(connection)
                except Exception as error:
                    if connection is not None:
                        connection.terminate()
                        connection = None
                    self._errors[url] = type(error).__name__
                    self._said.pop(url, None)
                    if not isinstance(error, (*UNREACHABLE, asyncpg.PostgresError)):
                        log.exception("checking a database host failed", host=host_of(url))
                else:
                    self._errors.pop(url, None)
                    self._said[url] = server
                self._asked.add(url)
                await self._choose()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._hurry[url].wait()
        finally:
            if connection is not None:
                connection.terminate()

    async def _choose(self) -> None:
        """Use the server that takes writes on the highest timeline. Prefer the present one if it is among them."""
        if self._used is None and len(self._asked) < len(self._urls) and self._best() is not None:
            await real_sleep(GRACE_S)  # the first to answer may be an old primary
        best = self._best()
        if best is None:
            return
        if best != self._used:
            if self._used is not None:
                log.warning("switched to another database server", host=host_of(best))
            self._used = best
            self._switched([connection for connection, url in list(self._made.items()) if url != best])
        self.note(self._said[best])
        self._news.set()

    def _best(self) -> str | None:
        able = [
            (server.timeline, url == self._used, url)
            for url, server in self._said.items()
            if server.writable and server.timeline >= self._highest
        ]
        return max(able)[2] if able else None

    def note(self, server: Server) -> None:
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
    servers = Servers(url, switched=lambda _: None, new_epoch=lambda: None)
    servers.start()
    try:
        return await servers.url()
    finally:
        await servers.stop()
