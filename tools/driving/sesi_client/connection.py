"""One path of a device: a socket that is opened again after each loss, checked by pings, and authenticated again."""

import asyncio
import collections
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from .errors import Closed, SesiError
from .rest import Rest
from .sockets import Socket
from .waits import ANSWER_S, NOT_AUTHENTICATED, REPLACED, REVOKED, Reconnection
from .wire import Frame

CONNECTIONS_KEPT = 20  # latest ended connections, for error messages


class Connection:
    """The connection of one path, `chat` or `pairing`: at most one socket at a time."""

    def __init__(
        self,
        rest: Rest,
        path: str,
        take: Callable[[Frame, bool], Awaitable[None]],
        end: Callable[[str], Awaitable[None]],
    ) -> None:
        """`take` gets each frame, and whether it is the first one of a socket; `end` the reason of an end."""
        self.path = path
        self.socket: Socket | None = None
        self.is_replaced = False  # a newer device took this one's place
        self._rest = rest
        self._take, self._end = take, end
        self._token: str | None = None
        self._reconnection = Reconnection(rest.dice)
        self._network = asyncio.Event()
        self._visible = asyncio.Event()
        self._visible.set()
        self._silence_s = 0.0
        self._timer: asyncio.TimerHandle | None = None  # until the next ping, or until its answer is late
        self._pinged_at: float | None = None
        self._life: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        # Ended connections, oldest first: when each ended and the wait after it, for error messages.
        self._ended: collections.deque[str] = collections.deque(maxlen=CONNECTIONS_KEPT)
        self._connected_at = 0.0

    @property
    def open(self) -> Socket | None:
        """Return the socket if it is authenticated and open."""
        return self.socket if self.socket is not None and not self.socket.closed else None

    @property
    def is_running(self) -> bool:
        """Return whether there is a socket, or one will be opened."""
        return self._life is not None and not self._life.done()

    @property
    def failure(self) -> BaseException | None:
        """Return the exception with which the connection has ended, if any: a mistake of this package."""
        if self._life is None or not self._life.done() or self._life.cancelled():
            return None
        return self._life.exception()

    def start(self) -> None:
        """Connect, and stay connected until `stop`."""
        if not self.is_running:
            self.is_replaced = False
            self._life = asyncio.create_task(self._live())

    async def stop(self) -> None:
        """Disconnect, and stay so."""
        tasks = [task for task in (self._life, *self._tasks) if task is not None and task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        self._life = None
        self._cancel_timer()
        if self.socket is not None:
            await self.socket.close()
        if tasks:
            await asyncio.wait(tasks)

    async def send(self, frame: Frame) -> bool:
        """Send a frame; return False without an open socket."""
        socket = self.open
        if socket is None:
            return False
        with contextlib.suppress(ConnectionError, RuntimeError):
            await socket.send(frame)
        return True

    def hide(self) -> None:
        """Open no new socket until `wake`."""
        self._visible.clear()

    def wake(self, *, online: bool) -> None:
        """Ask an open socket at once whether it lives: the app is in front, or the system has found a network.

        With `online`, that ends a wait, too.
        """
        if not online:
            self._visible.set()
        if self.open is not None:
            self._ping()
        elif online:
            self._network.set()
            self._network.clear()

    def log(self) -> str:
        """Describe the latest connections for error messages; times are seconds of the event loop's clock."""
        now = asyncio.get_running_loop().time()
        state = "not connected" if self.open is None else f"connected for {now - self._connected_at:.1f} s"
        return f"at {now:.1f} {state}; {' | '.join(self._ended) or 'no connection ended yet'}"

    async def _live(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            code, lived_s, retry_after_s = await self._connect_once()
            if await self._is_over(code):
                return
            wait_s = self._reconnection.wait(code, lived_s=lived_s, retry_after_s=retry_after_s)
            self._ended.append(f"{loop.time():.1f}: close code {code} after {lived_s:.1f} s, waits {wait_s:.1f} s")
            try:
                async with asyncio.timeout(wait_s):
                    await self._network.wait()
            except TimeoutError:
                await self._visible.wait()

    async def _connect_once(self) -> tuple[int | None, float, float | None]:
        """Return the close code of one socket, how long it was authenticated, and a `Retry-After`."""
        loop = asyncio.get_running_loop()
        self._token, self.socket = self._rest.access_token, None
        code, lived_s, retry_after_s = None, 0.0, None
        try:
            socket = await self._rest.connect(self.path)
            connected_at = loop.time()
            try:
                code = await self._receive(socket)
            finally:
                lived_s = loop.time() - connected_at
        except Closed as error:
            code = error.close_code
        except aiohttp.WSServerHandshakeError as error:
            retry_after_s = _retry_after(error)
        except (aiohttp.ClientError, OSError):
            code = self.socket.close_code if self.socket is not None else None
        return code, lived_s, retry_after_s

    async def _receive(self, socket: Socket) -> int | None:
        """Handle frames until the socket closes or answers no ping; return the close code."""
        assert socket.auth_ok is not None
        self.socket, self._connected_at = socket, asyncio.get_running_loop().time()
        self._silence_s, self._pinged_at = float(socket.auth_ok["ping_seconds"]), None
        try:
            self._expect_within(self._silence_s, self._ping)
            await self._take(socket.auth_ok, True)
            async for frame in socket:
                self._expect_within(self._silence_s, self._ping)
                await self._handle(socket, frame)
            return socket.close_code
        finally:
            self._cancel_timer()
            socket.abort()  # it may have failed in one direction only, and must not stay open

    async def _handle(self, socket: Socket, frame: Frame) -> None:
        if frame["type"] == "auth_expiring":
            self._spawn(self._authenticate_again(socket))
        elif frame["type"] == "pong":
            if self._pinged_at is not None:
                self._rest.clock.observe(frame["server_time"], self._pinged_at)
            self._pinged_at = None
        else:
            await self._take(frame, False)

    async def _is_over(self, code: int | None) -> bool:
        """Act by the close code; return whether no other socket may be opened."""
        if code == NOT_AUTHENTICATED:
            with contextlib.suppress(SesiError):  # tried again after the next 4401
                await self._rest.renew(self._token)
        if code == REVOKED:
            await self._end("revoked")
        if code == REPLACED:
            self.is_replaced = True
            await self._end("replaced")
        return code in (REVOKED, REPLACED) or self._rest.access_token is None

    async def _authenticate_again(self, socket: Socket) -> None:
        """Renew the token and send it over the socket, unless that socket has been replaced in the meantime."""
        with contextlib.suppress(SesiError, ConnectionError, RuntimeError):  # the service will close it with 4401
            await self._rest.renew(self._token)
            token = self._rest.access_token
            if socket is self.open and token is not None:
                self._token = token
                await socket.send({"type": "auth", "token": token})

    def _ping(self) -> None:
        if self._pinged_at is None:
            self._pinged_at = self._rest.clock.monotonic()
        self._spawn(self.send({"type": "ping"}))
        if self.socket is not None:
            self._expect_within(ANSWER_S, self.socket.abort)

    def _expect_within(self, seconds: float, otherwise: Callable[[], None]) -> None:
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, otherwise)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _retry_after(error: aiohttp.WSServerHandshakeError) -> float | None:
    """Return the seconds in the `Retry-After` of a refused upgrade, or None."""
    said = error.headers.get("Retry-After", "") if error.headers is not None else ""
    return float(said) if said.isdecimal() else None
