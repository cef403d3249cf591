"""A TCP proxy in front of PostgreSQL or Redis that simulates a bad network; a test switches its mode while it runs.

The proxy runs in a thread with its own event loop, so that a test that blocks its loop does not stop the service. In
front of PostgreSQL it also reads the statements: `park` holds the connection that sends a certain statement, either
before the server receives it or after the server has executed it. A test can then kill a process at exactly that point.
"""

import asyncio
import collections
import concurrent.futures
import enum
import re
import socket
import struct
import threading
import urllib.parse
from collections.abc import Callable
from typing import Any

import attrs

from tests.faults.statements import Message, Statements, has_ready, written

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset


class Mode(enum.Enum):
    """What the proxy does with bytes."""

    PASS = "pass"
    HANG = "hang"  # nothing passes and nothing is closed; new connections are accepted and hang as well
    CUT = "cut"  # all connections are reset, and so are new ones
    SWALLOW = "swallow"  # requests pass, replies are dropped


class When(enum.Enum):
    """Whether a connection is held before or after the server executes the statement."""

    BEFORE = "before"
    AFTER = "after"


@attrs.define(eq=False)
class Parked:
    """A statement at which the proxy holds, or will hold, a connection."""

    proxy: "Proxy"
    pattern: re.Pattern[str]
    when: When
    skip: int
    within: re.Pattern[str] | None
    link: "Link | None" = None
    _reached: concurrent.futures.Future[list[str]] = attrs.field(factory=concurrent.futures.Future)

    def wants(self, message: Message, transaction: list[str]) -> bool:
        """Return whether to hold at this statement; count the matches that are skipped."""
        if self.link is not None or message.statement is None or not self.pattern.search(message.statement):
            return False
        if self.within is not None and not any(self.within.search(sql) for sql in transaction):
            return False
        self.skip -= 1
        return self.skip < 0

    def arrived(self) -> None:
        """Note that the connection is held now."""
        assert self.link is not None
        if not self._reached.done():
            self._reached.set_result(list(self.link.statements.transaction))

    @property
    def is_held(self) -> bool:
        """Return whether a connection is held here and both ends are still connected."""
        return self._reached.done() and self.link in self.proxy.links

    async def reached(self, timeout: float = 20) -> list[str]:
        """Wait until a connection is held here; return the statements of its transaction."""
        async with asyncio.timeout(timeout):
            return await asyncio.shield(asyncio.wrap_future(self._reached))

    def release(self) -> None:
        """Let the held connection continue normally."""
        self.proxy.run(lambda: self.link and self.link.go_on())

    def drop(self) -> None:
        """Reset the connection; what was held is lost."""
        self.proxy.run(lambda: self.link and self.link.reset())


class End(asyncio.Protocol):
    """One end of a link: `client` or `server`."""

    def __init__(self, link: "Link", *, server: bool) -> None:
        self._link = link
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._link.made(transport, server=self._server)

    def data_received(self, data: bytes) -> None:
        """Pass the bytes to the link."""
        if self._server:
            self._link.answered(data)
        else:
            self._link.asked(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the other end too."""
        if not self._server or self._link.server is self._transport:
            self._link.reset()


class Link:
    """One client's connection through the proxy."""

    def __init__(self, proxy: "Proxy") -> None:
        self.proxy = proxy
        self.statements = Statements()
        self.client: asyncio.Transport | None = None
        self.server: asyncio.Transport | None = None
        self.lossy = False  # a reply was dropped, so the client could not interpret what follows
        self._early = bytearray()  # what the client sent before the connection to the server was made
        self._held = bytearray()
        self._late: collections.deque[bytes] = collections.deque()
        self._parked: Parked | None = None

    def made(self, transport: asyncio.Transport, *, server: bool) -> None:
        """Store the transport of one end, and send what was waiting for it."""
        if server:
            self.server = transport
            if self.client is None or self.client.is_closing():
                self.reset()
                return
            transport.write(bytes(self._early))
            self._early.clear()
        else:
            self.client = transport
            self.proxy.links.add(self)
            self.proxy.accepted += 1
            if self.proxy.mode is Mode.CUT:
                self.reset()
                return
            self.proxy.spawn(self._connect())
        if self.proxy.mode is Mode.HANG:
            transport.pause_reading()

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: End(self, server=True), *self.proxy.target)
        except OSError:
            self.reset()

    # -- bytes

    def asked(self, data: bytes) -> None:
        """Handle bytes from the client."""
        if self._parked is not None and self._parked.when is When.BEFORE:
            self._held += data
            return
        if not self.proxy.knows_statements:
            self._to_server(data)
            return
        messages = self.statements.feed(data)
        for n, message in enumerate(messages):
            parked = self.proxy.stop_for(self, message)
            if parked is None:
                self._to_server(message.raw)
                continue
            self._parked, parked.link = parked, self
            rest = b"".join(each.raw for each in messages[n:])
            if parked.when is When.BEFORE:
                self._held += rest
                parked.arrived()
            else:
                self._to_server(rest)
            return

    def _to_server(self, data: bytes) -> None:
        if self.server is None:
            self._early += data
        else:
            self.server.write(data)

    def answered(self, data: bytes) -> None:
        """Handle bytes from the server."""
        if self._parked is not None and self._parked.when is When.AFTER:
            self._held += data
            if has_ready(self._held):
                self._parked.arrived()
        elif self.proxy.mode is Mode.SWALLOW:
            self.lossy = True
        elif self.proxy.delay_s or self._late:
            self._late.append(data)
            asyncio.get_running_loop().call_later(self.proxy.delay_s, self._deliver)
        elif self.client is not None:
            self.client.write(data)

    def _deliver(self) -> None:
        """Pass on the oldest of the delayed replies."""
        data = self._late.popleft()
        if self.client is not None:
            self.client.write(data)

    def go_on(self) -> None:
        """Pass on what is held."""
        parked, self._parked = self._parked, None
        held, self._held = bytes(self._held), bytearray()
        if parked is not None and parked.when is When.BEFORE:
            self._to_server(held)
        elif parked is not None and self.client is not None:
            self.client.write(held)

    def pause(self, *, paused: bool) -> None:
        """Pause or resume reading from both ends."""
        for side in (self.client, self.server):
            if side is not None and not side.is_closing():
                (side.pause_reading if paused else side.resume_reading)()

    def replace_server(self) -> None:
        """Connect to the server again; the client's connection stays open."""
        before, self.server = self.server, None
        if before is not None:
            before.abort()
        self.proxy.spawn(self._connect())

    def reset(self) -> None:
        """Reset both ends. Held bytes never arrive."""
        self.proxy.links.discard(self)
        for side in (self.client, self.server):
            if side is not None and not side.is_closing():
                found = side.get_extra_info("socket")
                if found is not None:
                    found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                side.abort()


class Proxy:
    """A proxy in front of the server of a URL. Clients connect to `url`."""

    def __init__(self, url: str, *, knows_statements: bool = False) -> None:
        self._parts = urllib.parse.urlsplit(url)
        assert self._parts.hostname is not None
        assert self._parts.port is not None
        self.target = (self._parts.hostname, self._parts.port)
        self.knows_statements = knows_statements
        self.mode = Mode.PASS
        self.delay_s = 0.0  # delay of each reply; a test may change it at any time
        self.accepted = 0  # number of accepted client connections
        self.links: set[Link] = set()
        self.log: list[tuple[str, ...]] | None = None
        self._parks: list[Parked] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(5)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _listen(self) -> asyncio.Server:
        return await self._loop.create_server(lambda: End(Link(self), server=False), "127.0.0.1", 0)

    @property
    def url(self) -> str:
        """Return the URL to give to a process."""
        user = self._parts.netloc.rpartition("@")[0]
        place = f"127.0.0.1:{self.port}"
        return self._parts._replace(netloc=f"{user}@{place}" if user else place).geturl()

    def run(self, work: Callable[[], Any]) -> None:
        """Run a function in the proxy's thread and wait for it."""

        async def turn() -> None:
            work()

        asyncio.run_coroutine_threadsafe(turn(), self._loop).result(5)

    def spawn(self, work: Any) -> None:
        """Start a coroutine in the proxy's thread without waiting for it."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- what a test switches

    def switch(self, mode: Mode) -> None:
        """Change the mode. Connections that have lost a reply are reset."""
        self.run(lambda: self._switch(mode))

    def _switch(self, mode: Mode) -> None:
        before, self.mode = self.mode, mode
        for link in list(self.links):
            if mode is Mode.CUT or (link.lossy and mode is not Mode.SWALLOW):
                link.reset()
            elif Mode.HANG in (before, mode):
                link.pause(paused=mode is Mode.HANG)

    def reset_all(self) -> None:
        """Reset all connections once; new ones are accepted."""
        self.run(lambda: [link.reset() for link in list(self.links)])

    def replace_server(self) -> None:
        """Give every client a new connection to the server, as connection poolers do when a server is replaced."""
        self.run(lambda: [link.replace_server() for link in list(self.links)])

    def park(self, pattern: str, *, when: When, skip: int = 0, within: str | None = None) -> Parked:
        """Hold the connection at the next statement that matches `pattern`, in a transaction with a statement like
        `within`.
        """
        assert self.knows_statements
        place = Parked(
            self,
            re.compile(pattern),
            when,
            skip,
            None if within is None else re.compile(within),
        )
        self.run(lambda: self._parks.append(place))
        return place

    def remove_parks(self) -> None:
        """Remove all parks that are not reached yet; held connections stay held."""
        self.run(self._parks.clear)

    def stop_for(self, link: Link, message: Message) -> Parked | None:
        """Return the park that holds a connection at this message, or None; record the transactions that end."""
        if message.statement is None:
            return None
        transaction = link.statements.transaction
        ends = message.statement == "COMMIT" or len(transaction) == 1
        if self.log is not None and ends and written(transaction):
            self.log.append(tuple(transaction))
        for place in self._parks:
            if place.wants(message, transaction):
                self._parks.remove(place)
                return place
        return None

    def record(self) -> list[tuple[str, ...]]:
        """Record the statements of each transaction that writes. Return the list, which grows."""
        self.log = []
        return self.log

    def close(self) -> None:
        """Reset all connections and stop the thread."""

        async def end() -> None:
            self._server.close()
            for link in list(self.links):
                link.reset()
            for task in self._tasks:
                task.cancel()
            await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
