"""The WebSocket protocol (RFC 6455): the upgrade, the queue of received messages, and the encoding of frames.

The parser is aiohttp's, but not its response object. That wakes a task for each frame, which costs twice as much as
handling most frames. Here a frame that needs no waiting is handled while it is parsed, and only the others wait for the
task. Section numbers in docstrings are those of RFC 6455.
"""

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import hdrs, web
from aiohttp._websocket.reader import WebSocketDataQueue
from aiohttp.http import WS_KEY, WebSocketReader

from realtime.close_codes import PROTOCOL_ERROR

MAX_FRAME = 16_384  # bytes; the parser's own limit is exclusive, so it gets one more
# Bytes that may arrive without completing a message: a whole frame and the headers of its fragments. The parser does
# not report fragments, so this is the only limit for a flood of empty ones.
MAX_UNFINISHED = MAX_FRAME + 4096
PART_HEADERS = 256  # bytes of headers of a message that are not counted
WAITING_BYTES = 65_536  # of messages that wait for the task; at twice as many, reading pauses
NORMAL = 1000
SENDABLE = frozenset({NORMAL, 1001, PROTOCOL_ERROR, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014})
OURS, BEYOND = 3000, 5000  # codes for libraries and applications
PING = b"\x89\x00"
ANSWER = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: {}\r\n"


def text_frame(payload: bytes) -> bytes:
    """Return an unmasked text frame, as servers send it (5.2)."""
    size = len(payload)
    if size < 126:
        return bytes((0x81, size)) + payload
    if size < 65536:
        return b"\x81\x7e" + size.to_bytes(2, "big") + payload
    return b"\x81\x7f" + size.to_bytes(8, "big") + payload


def close_frame(code: int) -> bytes:
    """Return a close frame without a reason (5.5.1)."""
    return b"\x88\x02" + code.to_bytes(2, "big")


def answer_to_close(code: int) -> int:
    """Return the code that answers a peer's close frame: the peer's own, if it is one that may be sent (7.4)."""
    if code == 0:
        return NORMAL
    return code if code in SENDABLE or OURS <= code < BEYOND else PROTOCOL_ERROR


def pong_frame(payload: bytes) -> bytes:
    """Return the answer to a ping with the ping's payload, which has at most 125 bytes (5.5.3)."""
    return bytes((0x8A, len(payload))) + payload


class Inbox(WebSocketDataQueue):
    """The queue between the parser and the socket's task, in order of arrival.

    After `start`, `take` is called with each message while the queue is empty. It handles the message and returns None, or returns the
    work that is left for the task. `read` returns what to do next: a message that `take` has not seen, or what `take`
    left. It raises EofStream if the peer is gone and WebSocketError if it violated the protocol. `unfinished` counts
    the bytes that arrived without completing a message.
    """

    def __init__(self, request: web.Request, take: Callable[[Any], Any]) -> None:
        super().__init__(request.protocol, WAITING_BYTES, loop=asyncio.get_running_loop())
        self.unfinished = 0
        self._take = take
        self._started = False
        self._behind = 0  # queued or being handled by the task

    def start(self) -> None:
        """Pass messages to `take` from now on; the ones before, those of the handshake, are read one by one."""
        self._started = True

    @property
    def waiting(self) -> bool:
        """Return whether a message is queued or still being handled."""
        return self._behind > 0

    def feed_data(self, data: Any, size: int) -> None:
        """Take a message from the parser. It is queued if others are, so that the order is kept."""
        self.unfinished -= size + PART_HEADERS
        if self._started and not self._behind and (data := self._take(data)) is None:
            return
        self._behind += 1
        super().feed_data(data, size)

    def done(self) -> None:
        """Report that what `read` returned has been handled."""
        self._behind -= 1


class Parser:
    """aiohttp's parser with a limit for unfinished messages; `overrun` is called when they exceed MAX_UNFINISHED."""

    def __init__(self, inbox: Inbox, overrun: Callable[[], None]) -> None:
        self._inbox = inbox
        self._overrun = overrun
        self._reader = WebSocketReader(inbox, MAX_FRAME + 1, compress=False, decode_text=False)
        self.feed_eof = self._reader.feed_eof

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Parse received bytes."""
        inbox = self._inbox
        inbox.unfinished = max(0, inbox.unfinished) + len(data)
        answer = self._reader.feed_data(data)
        # While the reader is stalled, it holds back whole messages, and these don't count.
        if inbox.unfinished > MAX_UNFINISHED and inbox._stalled_reader is None:
            self._overrun()
        return answer


class Upgraded(web.StreamResponse):
    """The response that aiohttp gets after the socket has closed; it writes nothing."""

    def __init__(self) -> None:
        super().__init__(status=101)
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write nothing."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Write nothing."""


def accept_key(request: web.Request) -> str | None:
    """Return the `Sec-WebSocket-Accept` of a request, or None if it is not a valid WebSocket upgrade (4.2.1)."""
    headers = request.headers
    tokens = {token.strip().lower() for token in ",".join(headers.getall(hdrs.CONNECTION, ())).split(",")}
    key = headers.get(hdrs.SEC_WEBSOCKET_KEY, "")
    try:
        sane = len(base64.b64decode(key, validate=True)) == 16
    except (binascii.Error, ValueError):
        return None
    if (
        not sane
        or "upgrade" not in tokens
        or headers.get(hdrs.UPGRADE, "").strip().lower() != "websocket"
        or headers.get(hdrs.SEC_WEBSOCKET_VERSION) != "13"
    ):
        return None
    return base64.b64encode(hashlib.sha1(key.encode() + WS_KEY, usedforsecurity=False).digest()).decode()


def upgrade(
    request: web.Request,
    transport: asyncio.Transport,
    accept: str,
    headers: Mapping[str, str],
    take: Callable[[Any], Any],
    overrun: Callable[[], None],
) -> tuple[Inbox, Parser]:
    """Answer the upgrade with `headers` in addition to its own; return the queue of messages and the parser that fills
    it.

    `take` is the queue's (see Inbox). Keep the parser for as long as the queue is read. `overrun` is called when unfinished messages exceed
    MAX_UNFINISHED.
    """
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    transport.write(f"{ANSWER.format(accept)}{head}\r\n".encode())
    inbox = Inbox(request, take)
    parser = Parser(inbox, overrun)
    request.protocol.keep_alive(False)
    request.protocol.set_parser(parser)  # type: ignore[arg-type]  # it calls only these two methods
    return inbox, parser
