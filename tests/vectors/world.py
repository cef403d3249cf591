"""The outside world of a Python client: sockets and HTTP that the player of a vector serves."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

Frame = dict[str, Any]


class FakeSocket:
    """One socket, with the methods of aiohttp's that the client uses."""

    def __init__(self, world: "World", path: str) -> None:
        self.path = path
        self._world = world
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._frames: asyncio.Queue[aiohttp.WSMessage | None] = asyncio.Queue()
        self.close_code: int | None = None
        self.dead = False  # nothing passes in either direction any longer
        self.connection = self  # `abort` looks for response.connection.transport
        self.transport = self
        self._response = self

    def __aiter__(self) -> AsyncIterator[aiohttp.WSMessage]:
        return self

    async def __anext__(self) -> aiohttp.WSMessage:
        message = await self._frames.get()
        if message is None:
            raise StopAsyncIteration
        return message

    async def send_json(self, frame: Frame) -> None:
        """Send a frame to the player."""
        if self.close_code is not None:
            raise ConnectionError("closed")
        if not self.dead:
            self._world.out.append({"frame": frame, "path": self.path})

    def serve(self, frame: Frame) -> None:
        """Give the client a frame."""
        if not self.dead:
            self._frames.put_nowait(aiohttp.WSMessage(aiohttp.WSMsgType.TEXT, json.dumps(frame), None))

    def end(self, code: int | None) -> None:
        """Close the socket; None: the connection is lost."""
        self.close_code = code or 1006
        if not self.opened.done():
            self.opened.set_exception(aiohttp.ClientConnectionError("refused"))
        self._frames.put_nowait(None)

    def abort(self) -> None:
        """Take note that the client gives the socket up."""
        self.end(None)

    async def close(self) -> None:
        """Take note that the client closes the socket."""
        self.end(1000)


class FakeAnswer:
    """An HTTP answer."""

    def __init__(self, status: int, body: Any, headers: dict[str, str]) -> None:
        self.status = status
        self.headers = CIMultiDict(headers)
        self._body = body

    async def json(self, **_: Any) -> Any:
        """Return the body."""
        return self._body


class World:
    """What a client does to the world, in order, and handles to answer it."""

    def __init__(self) -> None:
        self.out: list[dict[str, Any]] = []
        self.sockets: list[FakeSocket] = []

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, url: str, *, json: Any = None, headers: dict[str, str] | None = None, **_: Any
    ) -> AsyncIterator[FakeAnswer]:
        """Take a request of the client and wait until the player answers it."""
        answered: asyncio.Future[FakeAnswer | None] = asyncio.get_running_loop().create_future()
        route = f"{method} {URL(url).path}"
        self.out.append({"request": route, "body": json, "headers": dict(headers or {}), "answered": answered})
        answer = await answered
        if answer is None:
            raise aiohttp.ClientConnectionError("no answer")
        yield answer

    async def ws_connect(self, url: str, **_: Any) -> FakeSocket:
        """Open a socket, once the player lets it."""
        socket = FakeSocket(self, URL(url).path)
        self.sockets.append(socket)
        self.out.append({"open": socket.path})
        await socket.opened
        return socket

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    def latest(self, path: str) -> FakeSocket:
        """Return the newest socket of a path."""
        return next(socket for socket in reversed(self.sockets) if socket.path == path)

    def numbered(self, path: str) -> Iterator[FakeSocket]:
        """Return all sockets of a path, oldest first."""
        return (socket for socket in self.sockets if socket.path == path)


def refuse_upgrade(socket: FakeSocket, status: int, headers: dict[str, str]) -> None:
    """Refuse the upgrade of a socket."""
    info = aiohttp.RequestInfo(URL("http://sesi"), "GET", CIMultiDict(), URL("http://sesi"))
    error = aiohttp.WSServerHandshakeError(info, (), status=status, headers=CIMultiDict(headers))
    socket.opened.set_exception(error)
