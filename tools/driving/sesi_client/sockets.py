"""One socket: frames in both directions, and nothing that opens it again."""

from collections.abc import Callable
from typing import ClassVar, Self

import aiohttp

from .errors import Closed
from .wire import Frame


class Socket:
    """A socket on one path. Iterate over it for the frames of the service, until it has closed."""

    # Called with the path, each frame, and the first frame (`auth_ok`). Tests set it.
    check_frame: ClassVar[Callable[[str, Frame, Frame], None] | None] = None

    def __init__(self, ws: aiohttp.ClientWebSocketResponse, path: str) -> None:
        self.path = path
        self.auth_ok: Frame | None = None  # the first frame
        self.closed = False
        self._ws = ws

    @property
    def close_code(self) -> int | None:
        """Return the service's close code, or None."""
        return self._ws.close_code

    async def send(self, frame: Frame) -> None:
        """Send a frame. Raises ConnectionError."""
        await self._ws.send_json(frame)

    async def authenticate(self, token: str) -> Frame:
        """Send the first frame of a new socket; return the `auth_ok` that answers it. Raises Closed."""
        await self.send({"type": "auth", "token": token})
        async for frame in self:
            if frame["type"] == "auth_ok":
                self.auth_ok = frame
                return frame
        raise Closed(self.close_code, f"closed with {self.close_code} before auth_ok")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Frame:
        while True:
            try:
                message = await anext(self._ws)
            except StopAsyncIteration:
                self.closed = True
                raise
            if message.type is aiohttp.WSMsgType.TEXT:
                frame: Frame = message.json()
                if Socket.check_frame is not None:
                    Socket.check_frame(self.path, frame, self.auth_ok or frame)
                return frame

    def abort(self) -> None:
        """Abort the connection without a close frame."""
        self.closed = True
        connection = self._ws._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()

    async def close(self) -> None:
        """Close the socket."""
        self.closed = True
        await self._ws.close()
