"""A Socket.IO client for load: Engine.IO 4 and Socket.IO 5 over a raw WebSocket, with little processor time.

The load generator shares the machine with the server, so a message costs it one `%` of bytes and one search for a mark.
The server can't see what it leaves out: frames are masked with zeros, JSON is never parsed, and only the default
namespace exists.

Protocols: RFC 6455; socketio/engine.io-protocol (v4) and socketio/socket.io-protocol (v5).
"""

import asyncio
import json
import time
import uuid
from collections.abc import Callable
from typing import cast

import attrs

UPGRADE = (
    b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
WORDS = b"hello, this is a normal chat message of some length"
FIRST = 10_000_000  # eight digits, so that all messages of a sender have the same length
CONNECT_TIMEOUT_S = 10
# The number of a message and its time follow this sign, which occurs nowhere else in a packet.
MARK = b"#"


def frame(payload: bytes) -> bytes:
    """Return a client's text frame."""
    return _head(len(payload)) + payload


def _head(size: int) -> bytes:
    if size < 126:
        return bytes((0x81, 0x80 | size)) + b"\0\0\0\0"
    return b"\x81\xfe" + size.to_bytes(2, "big") + b"\0\0\0\0"


@attrs.define
class Figures:
    """Measurements since the last `clear`. Times are in nanoseconds."""

    acked: int = 0
    delivered: int = 0
    out_of_order: int = 0  # deliveries after a later message of the same sender
    lost: list[str] = attrs.field(factory=list)  # reasons why ready sockets were lost; never cleared
    ack_ns: list[int] = attrs.field(factory=list)
    delivery_ns: list[int] = attrs.field(factory=list)

    def clear(self) -> None:
        """Reset the measurements."""
        self.acked = self.delivered = self.out_of_order = 0
        self.ack_ns.clear()
        self.delivery_ns.clear()


class Connection(asyncio.Protocol):
    """One socket. It handles the handshake and pings, and records received messages."""

    def __init__(
        self,
        token: str,
        figures: Figures,
        *,
        on_ready: Callable[[], None] = lambda: None,
        on_ack: Callable[[int], None] = lambda _: None,
        on_message: Callable[[int], None] = lambda _: None,
        on_lost: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._connect = frame(b"40" + json.dumps({"token": token}).encode())
        self._figures = figures
        self._on_ready, self._on_ack, self._on_message, self._on_lost = on_ready, on_ack, on_message, on_lost
        self._transport: asyncio.Transport
        self._buffer = b""
        self._upgraded = False
        self._sent_ns: dict[bytes, int] = {}
        self._number = FIRST
        self._newest = FIRST
        self._head = self._form = b""

    def speak_in(self, session_id: str) -> None:
        """Set the session of the following messages."""
        # Random, because two runs on one database must not use the same client_message_id.
        ids = str(uuid.uuid4())[:24].encode()
        form = b'42%%d["message",{"session_id":"%b","client_message_id":"%b%%012d","content":"#%%d %%d %b"}]'
        self._form = form % (session_id.encode(), ids, WORDS)
        self._head = _head(len(self._form % (FIRST, 0, FIRST, time.perf_counter_ns())))

    def send(self, count: int) -> None:
        """Send `count` messages in one write."""
        now = time.perf_counter_ns()
        parts: list[bytes] = []
        for number in range(self._number, self._number + count):
            payload = self._form % (number, number, number, now)
            self._sent_ns[b"%d" % number] = now
            parts += (self._head, payload)
        self._number += count
        self._transport.write(b"".join(parts))

    def close(self) -> None:
        """Abort the connection."""
        self._on_lost = lambda _: None
        self._transport.abort()

    # -- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Request the WebSocket upgrade."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class has the same interface
        self._transport.write(UPGRADE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake the tasks that wait for frames."""
        self._on_lost(repr(exc))

    def data_received(self, data: bytes) -> None:
        """Handle all complete frames."""
        data = self._buffer + data if self._buffer else data
        at = 0 if self._upgraded else self._take_upgrade(data)
        if not self._upgraded:
            self._buffer = data
            return
        acks, size, now = 0, len(data), time.perf_counter_ns()
        while size - at >= 2:
            length, begin = data[at + 1], at + 2
            if length == 126:
                length, begin = int.from_bytes(data[at + 2 : at + 4], "big"), at + 4
            elif length == 127:
                length, begin = int.from_bytes(data[at + 2 : at + 10], "big"), at + 10
            end = begin + length
            if size < end:
                break
            kind = data[begin : begin + 2]
            if kind == b"42":
                self._take_message(data, begin, now)
            elif kind == b"43" and not data.startswith(b'[{"error', begin + 10):
                acks += 1
                self._figures.ack_ns.append(now - self._sent_ns.pop(data[begin + 2 : begin + 10]))
            else:
                self._take_other(data[begin:end])
            at = end
        self._buffer = data[at:]
        if acks:
            self._figures.acked += acks
            self._on_ack(acks)

    # -- packets

    def _take_upgrade(self, data: bytes) -> int:
        """Return where the frames start, once the answer to the upgrade is complete."""
        end = data.find(b"\r\n\r\n") + 4
        if end >= 4:
            self._upgraded = data.startswith(b"HTTP/1.1 101")
            if not self._upgraded:
                self._lose(data)
        return end

    def _take_message(self, data: bytes, begin: int, now: int) -> None:
        at = data.index(MARK, begin) + 1
        number, figures = int(data[at : at + 8]), self._figures
        figures.delivered += 1
        figures.delivery_ns.append(now - int(data[at + 9 : data.index(b" ", at + 9)]))
        if number < self._newest:
            figures.out_of_order += 1
        else:
            self._newest = number
        self._on_message(number)

    def _take_other(self, packet: bytes) -> None:
        if packet[:1] == b"2":  # ping
            self._transport.write(frame(b"3"))
        elif packet[:1] == b"0":  # open
            self._transport.write(self._connect)
        elif packet[:2] == b"40":  # connected
            self._on_ready()
        else:
            self._lose(packet)

    def _lose(self, said: bytes) -> None:
        """Record that the server ended the connection, by a refusal or a close frame."""
        self._on_lost(said[:200].decode(errors="replace"))
        self.close()


async def connect(
    port: int, token: str, figures: Figures, *, on_ack: Callable[[int], None] = lambda _: None
) -> Connection:
    """Open a socket and wait until it is authenticated.

    Raises ConnectionError if the server refuses it, TimeoutError.
    """
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def lost(why: str) -> None:
        if ready.done():
            figures.lost.append(why)
        else:
            ready.set_exception(ConnectionError(why))

    def make() -> Connection:
        return Connection(token, figures, on_ready=lambda: ready.set_result(None), on_ack=on_ack, on_lost=lost)

    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        _, connection = await loop.create_connection(make, "127.0.0.1", port)
        await ready
    return connection


class Pair:
    """A customer who sends and a mitra who receives."""

    def __init__(self, customer: Connection, mitra: Connection) -> None:
        self.customer, self.mitra = customer, mitra

    @classmethod
    async def open(
        cls, port: int, *, session_id: str, tokens: tuple[str, str], figures: Figures, refill: bool
    ) -> "Pair":
        """Connect both. With `refill`, each acknowledgement is followed by the next message at once."""
        mitra = await connect(port, tokens[1], figures)
        customer = await connect(
            port, tokens[0], figures, on_ack=lambda count: customer.send(count) if refill else None
        )
        customer.speak_in(session_id)
        return cls(customer, mitra)

    def close(self) -> None:
        """Close both sockets."""
        self.customer.close()
        self.mitra.close()
