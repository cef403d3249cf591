"""A cheap WebSocket client (RFC 6455) for thousands of connections: it supports text frames and pongs only."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

UPGRADE = (
    "GET {path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
SHORT, MEDIUM = 126, 127


def masked(opcode: int, payload: bytes) -> bytes:
    """Return a client's frame. Its mask is zero, so masking costs nothing."""
    size = len(payload)
    head = bytes((0x80 | opcode,))
    head += bytes((0x80 | size,)) if size < SHORT else bytes((0x80 | SHORT,)) + size.to_bytes(2, "big")
    return head + b"\0\0\0\0" + payload


class RawSocket(asyncio.Protocol):
    """One socket. `hear` is called with each frame's bytes; `lost` is called once when the connection has ended."""

    def __init__(self, path: str, token: str, hear: Callable[[bytes], None], lost: Callable[[], None]) -> None:
        self._path = path
        self._token = token
        self._hear = hear
        self._lost = lost
        self._buffer = b""
        self._open = False
        self.code: int | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the upgrade request."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(UPGRADE.format(path=self._path).encode())

    def say(self, frame: dict[str, Any]) -> None:
        """Send a frame."""
        if self.transport is not None:
            self.transport.write(masked(TEXT, json.dumps(frame).encode()))

    def data_received(self, data: bytes) -> None:
        """Split the bytes into frames."""
        self._buffer += data
        if not self._open:
            head, end, rest = self._buffer.partition(b"\r\n\r\n")
            if not end:
                return
            if b" 101 " not in head[:20]:
                self.abort()
                return
            self._open, self._buffer = True, rest
            self.say({"type": "auth", "token": self._token})
        while (frame := self._cut()) is not None:
            self._take(*frame)

    def _cut(self) -> tuple[int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        size, start = buffer[1] & 0x7F, 2
        if size >= SHORT:
            start = 4 if size == SHORT else 10
            size = int.from_bytes(buffer[2:start], "big")
        if len(buffer) < start + size:
            return None
        self._buffer = buffer[start + size :]
        return buffer[0] & 0x0F, buffer[start : start + size]

    def _take(self, opcode: int, payload: bytes) -> None:
        if opcode == TEXT:
            self._hear(payload)
        elif opcode == PING and self.transport is not None:
            self.transport.write(masked(PONG, payload))
        elif opcode == CLOSE:
            self.code = int.from_bytes(payload[:2], "big")
            self.abort()

    def abort(self) -> None:
        """Drop the connection without a close frame."""
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the owner."""
        self._lost()
