"""One socket of a phone: opened again after each loss, checked by pings, authenticated again with each new token."""

import asyncio
import collections
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from tools.driving.client import Client, Closed, Refused, Socket
from tools.driving.phone.reconnection import NOT_AUTHENTICATED, REVOKED, TOO_MANY, Reconnection, SignedOut, retry_after

SILENCE_S = 30.0  # send `ping` when nothing has come for this long
PONG_S = 10.0  # and reconnect when nothing comes for this long after it
CONNECTIONS_KEPT = 20  # latest ended connections, for error messages
Frame = dict[str, Any]


class PhoneConnection:
    """One path of a device. It calls `take` with each frame and `changed` after each batch of frames."""

    def __init__(
        self,
        client: Client,
        path: str,
        take: Callable[[Socket, Frame], Awaitable[None]],
        changed: Callable[[], Awaitable[None]],
    ) -> None:
        self._client = client
        self._path = path
        self._take, self._changed = take, changed
        self.socket: Socket | None = None
        self._token: str | None = None
        self._renewal: asyncio.Task[None] | None = None
        # Ended connections, oldest first: when each ended and the wait after it, for error messages.
        self._ended: collections.deque[str] = collections.deque(maxlen=CONNECTIONS_KEPT)
        self._connected_at = 0.0

    @property
    def open(self) -> Socket | None:
        """Return the socket if it is authenticated and open."""
        return self.socket if self.socket is not None and not self.socket.closed else None

    async def send(self, frame: Frame) -> None:
        """Send a frame; nothing happens if there is no open socket."""
        if self.open is not None:
            with contextlib.suppress(ConnectionError, RuntimeError):
                await self.open.send(frame)

    async def live(self) -> None:
        """Stay connected until cancelled. Raises SignedOut."""
        loop, reconnection = asyncio.get_running_loop(), Reconnection(self._client.dice)
        while True:
            self._token = self._client.access_token
            socket: Socket | None = None
            connected_at, retry_after_s = loop.time(), None
            try:
                socket = self.socket = await self._client.open(self._path)
                connected_at = self._connected_at = loop.time()
                code = await self._receive(socket)
            except Closed as error:
                code = error.code
            except aiohttp.WSServerHandshakeError as error:
                code, retry_after_s = None, retry_after(error)
            except (aiohttp.ClientError, ConnectionError, TimeoutError):
                code = socket.close_code if socket is not None else None
            if socket is not None:
                socket.abort()  # it may have failed in one direction only, and must not stay open
            await self._check_close_code(code)
            lived_s = loop.time() - connected_at if socket is not None else 0.0
            wait_s = reconnection.wait(code, lived_s=lived_s, retry_after_s=retry_after_s)
            self._ended.append(f"{loop.time():.1f}: close code {code} after {lived_s:.1f} s, waits {wait_s:.1f} s")
            await asyncio.sleep(wait_s)

    async def _check_close_code(self, code: int | None) -> None:
        if code == REVOKED:
            self._client.forget()
        if code in (REVOKED, TOO_MANY):
            raise SignedOut(code)
        if code == NOT_AUTHENTICATED:
            await self._renew()

    async def close(self) -> None:
        """Close the socket."""
        if self._renewal is not None:
            self._renewal.cancel()
        if self.socket is not None:
            await self.socket.close()

    def log(self) -> str:
        """Describe the latest connections for error messages; times are seconds of the event loop's clock."""
        now = asyncio.get_running_loop().time()
        state = "not connected" if self.open is None else f"connected for {now - self._connected_at:.1f} s"
        return f"at {now:.1f} {state}; {' | '.join(self._ended) or 'no connection ended yet'}"

    async def _receive(self, socket: Socket) -> int | None:
        """Handle frames until the socket closes or answers no ping; return the close code."""
        place, pinged = 0, False
        while True:
            try:
                async with asyncio.timeout(PONG_S if pinged else SILENCE_S):
                    frames = await socket.more(place)
            except TimeoutError:
                if pinged:
                    return None
                pinged = True
                await socket.send({"type": "ping"})
                continue
            if not frames:
                return socket.close_code
            pinged = False
            for frame in frames:
                if frame["type"] == "auth_expiring":
                    self._renewal = asyncio.create_task(self._authenticate_again(socket))
                await self._take(socket, frame)
            place += len(frames)
            await self._changed()

    async def _authenticate_again(self, socket: Socket) -> None:
        """Renew the token and send it over the socket, unless that socket has been replaced in the meantime."""
        with contextlib.suppress(SignedOut, ConnectionError, RuntimeError):
            await self._renew()
            if socket is self.open:
                self._token = self._client.access_token
                await socket.send({"type": "auth", "token": self._token})

    async def _renew(self) -> None:
        try:
            await self._client.renew(self._token)
        except Refused as error:
            if error.status == 401:
                self._client.forget()
                raise SignedOut(error.code) from error
        except (aiohttp.ClientError, TimeoutError):
            return
