"""Sockets of the load generator, which use little processor time because they share the machine with the service."""

import asyncio
import socket
import sys
import time
from collections.abc import Callable
from typing import cast

clock = time.perf_counter
PING, PONG = 0x89, 0x8A  # the first byte of these frames
IP_BIND_ADDRESS_NO_PORT = 24  # Linux; Python 3.11 has no constant for it
UPGRADE = (
    "GET {path} HTTP/1.1\r\nHost: bench\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


async def connected(source: str, port: int) -> socket.socket:
    """Return a connection from a given loopback address to a port of this machine. Raises OSError.

    The kernel chooses the local port at `connect`, because choosing it at `bind` gets slow with thousands of
    connections.
    """
    made = socket.socket()
    try:
        made.setblocking(False)
        if sys.platform == "linux":
            made.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        made.bind((source, 0))
        await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
    except BaseException:
        made.close()
        raise
    return made


def client_frame(payload: bytes) -> bytes:
    """Return a text frame as clients send it, masked with zeros."""
    size = len(payload)
    if size < 126:
        return bytes((0x81, 0x80 | size)) + b"\0\0\0\0" + payload
    return b"\x81\xfe" + size.to_bytes(2, "big") + b"\0\0\0\0" + payload


class SocketTally:
    """Counts and latencies of all sockets of a load."""

    def __init__(self) -> None:
        self.ready = 0
        self.acked = 0
        self.delivered = 0
        self.marks = 0
        self.disordered = 0
        self.errors: list[bytes] = []
        self.closed = 0
        self.ack_s: list[float] = []
        self.delivered_s: list[float] = []

    def trouble(self) -> str | None:
        """Return what prevents the sockets from going on: error frames, refusals or lost connections."""
        if self.errors:
            return f"{len(self.errors)} errors, the first: {self.errors[0].decode(errors='replace')}"
        return f"{self.closed} connections are lost" if self.closed else None


class Wire(asyncio.Protocol):
    """A WebSocket that authenticates, then calls `take` with the position of each frame in the buffer."""

    def __init__(self, path: str, token: str, tally: SocketTally) -> None:
        self.tally = tally
        self._head = UPGRADE.format(path=path).encode()
        self._token = token
        self._buffer = b""
        self._open = False
        self.transport: asyncio.Transport | None = None
        self.on_ready: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's class differs
        self.transport.write(self._head)

    def connection_lost(self, exc: Exception | None) -> None:
        self.tally.closed += 1

    def write(self, data: bytes) -> None:
        """Send frames."""
        assert self.transport is not None
        self.transport.write(data)

    def close(self) -> None:
        """Abort the connection."""
        if self.transport is not None:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        at = 0
        if not self._open:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                self._buffer = buffer
                return
            if not buffer.startswith(b"HTTP/1.1 101"):
                self.tally.errors.append(buffer[:200])
                return
            self._open = True
            self.upgraded()
            at = end + 4
        size = len(buffer)
        while size - at >= 2:
            length = buffer[at + 1]
            start = at + 2
            if length == 126:
                length, start = int.from_bytes(buffer[at + 2 : at + 4], "big"), at + 4
            elif length == 127:
                length, start = int.from_bytes(buffer[at + 2 : at + 10], "big"), at + 10
            if size < start + length:
                break
            at = start + length
            self.take(buffer, start, at)
        self._buffer = buffer[at:]
        self.read()

    def upgraded(self) -> None:
        """Called when the socket is open: authenticate."""
        self.write(client_frame(b'{"type":"auth","token":"%s"}' % self._token.encode()))

    def authenticated(self) -> None:
        """Count the socket as ready."""
        self.tally.ready += 1
        if self.on_ready is not None:
            self.on_ready()

    def take(self, buffer: bytes, start: int, end: int) -> None:
        """Handle the frame in `buffer[start:end]`."""
        if buffer[start - 2] == PING:
            self.write(bytes((PONG, 0x80 | (end - start))) + b"\0\0\0\0" + buffer[start:end])
        elif buffer.startswith(b"auth_ok", start + 9):
            self.authenticated()
        elif buffer.startswith(b'{"type":"error"', start) or buffer[start - 2] == 0x88:
            self.tally.errors.append(buffer[start:end])

    def read(self) -> None:
        """Called after all frames of one read have been handled."""
