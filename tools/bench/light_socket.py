"""Sockets of the load generator, which use little processor time because they share the machine with the service.

A message frame is a constant head, a counter in the last digits of its client message id, and a constant tail. So a
delivered message shows its number, and whether it arrived in order.
"""

import asyncio
import collections
import secrets
import socket
import sys
import time
from collections.abc import Callable
from typing import cast

clock = time.perf_counter
IP_BIND_ADDRESS_NO_PORT = 24  # Linux; Python 3.11 has no constant for it
UPGRADE = (
    "GET {path} HTTP/1.1\r\nHost: bench\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
WORDS = "a message of ordinary length, as people write it in a chat"
CLIENT_ID = b'"client_message_id":"'
COUNTER_AT = len(CLIENT_ID) + 24  # the last 12 of a UUID's 36 characters


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


class Tally:
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

    def __init__(self, path: str, token: str, tally: Tally) -> None:
        self.tally = tally
        self._head = UPGRADE.format(path=path).encode()
        self._auth = client_frame(b'{"type":"auth","token":"%s"}' % token.encode())
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
            self.write(self._auth)
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

    def take(self, buffer: bytes, start: int, end: int) -> None:
        """Handle the frame in `buffer[start:end]`."""
        kind = buffer[start + 9 : start + 16]
        if kind == b"auth_ok":
            self.tally.ready += 1
            if self.on_ready is not None:
                self.on_ready()
        elif buffer.startswith(b'{"type":"error"', start) or buffer[start - 2] == 0x88:
            self.tally.errors.append(buffer[start:end])

    def read(self) -> None:
        """Called after all frames of one read have been handled."""


class ChatWire(Wire):
    """One party of a chat.

    `window`: messages in flight at a time. `marks`: mark received messages as delivered and read.
    """

    def __init__(self, token: str, session_id: str, tally: Tally, *, window: int, marks: bool) -> None:
        super().__init__("/ws/chat", token, tally)
        self.other: ChatWire
        self._window = window
        self._marks = marks
        self._sent = 0
        self._expected = 1
        self._acks = 0
        self._seq = 0
        self._last_marked = 0
        self.running = False
        self._acked_from: collections.deque[float] = collections.deque()
        self._delivered_from: collections.deque[float] = collections.deque()
        prefix = (
            f"{secrets.token_hex(4)}-{secrets.token_hex(2)}-4{secrets.token_hex(2)[1:]}-8{secrets.token_hex(2)[1:]}-"
        )
        message = f'{{"type":"send_message","session_id":"{session_id}","client_message_id":"{prefix}{0:012x}","content":"{WORDS}"}}'
        self._before, self._after = client_frame(message.encode()).split(b"0" * 12, 1)
        self._delivered = f'{{"type":"delivered","session_id":"{session_id}","up_to":%d}}'
        self._read = f'{{"type":"read","session_id":"{session_id}","up_to":%d}}'

    @property
    def in_flight(self) -> int:
        """Return the number of unacknowledged messages."""
        return len(self._acked_from)

    def fire(self, count: int) -> None:
        """Send `count` messages in one write."""
        now = clock()
        self._acked_from.extend([now] * count)
        self.other._delivered_from.extend([now] * count)
        first = self._sent + 1
        self._sent += count
        before, after = self._before, self._after
        self.write(b"".join([b"%b%012x%b" % (before, number, after) for number in range(first, first + count)]))

    def begin(self) -> None:
        """Send until the window is full, and then a message for each acknowledgement."""
        self.running = True
        self.fire(self._window)

    def take(self, buffer: bytes, start: int, end: int) -> None:
        if not buffer.startswith(b"message", start + 9):
            super().take(buffer, start, end)
            return
        kind = buffer[start + 16]
        tally = self.tally
        if kind == 34:  # "message"
            counter = buffer.find(CLIENT_ID, start) + COUNTER_AT
            number = int(buffer[counter : counter + 12], 16)
            if number != self._expected:
                tally.disordered += 1
            self._expected = number + 1
            at = buffer.find(b'"seq":', start) + 6
            seq = int(buffer[at : buffer.find(b",", at)])
            if seq <= self._seq:
                tally.disordered += 1
            self._seq = seq
            tally.delivered += 1
            if self._delivered_from:
                tally.delivered_s.append(clock() - self._delivered_from.popleft())
            else:  # a message was delivered twice
                tally.disordered += 1
        elif kind == 95:
            if buffer[start + 17] == 97:  # "message_ack"
                self._acks += 1
            else:  # "message_status"
                tally.marks += 1

    def read(self) -> None:
        if self._acks:
            now, count = clock(), self._acks
            self._acks = 0
            self.tally.acked += count
            for _ in range(count):
                self.tally.ack_s.append(now - self._acked_from.popleft())
            if self.running:
                self.fire(count)
        if self._marks and self._seq > self._last_marked:
            self._last_marked = self._seq
            seq = self._seq
            self.write(client_frame((self._delivered % seq).encode()) + client_frame((self._read % seq).encode()))
