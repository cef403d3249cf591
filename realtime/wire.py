"""WebSockets below our frames (RFC 6455): the upgrade, what the parser hands in, the frames that are written.

The parser is aiohttp's. Its response object is not used: that one wakes a task for each frame, at twice the price of all
that most frames ask for. Here a frame that can be carried out at once is, while it is read; the others wait for the task.
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

MAX_FRAME = 16_384  # contract 7; the parser refuses what reaches its limit, we what is beyond
# Bytes that may arrive without completing a message: a whole frame and the headers of its parts. The parser does not report parts,
# so this is what bounds a flood of empty ones.
MAX_UNFINISHED = MAX_FRAME + 4096
PART_HEADERS = 256  # bytes of headers that one message may have without counting
WAITING_BYTES = 65_536  # of frames that wait for the task: from twice as many on nothing more is read
NORMAL, PROTOCOL_ERROR = 1000, 1002
SENDABLE = frozenset({NORMAL, 1001, PROTOCOL_ERROR, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014})
OURS, BEYOND = 3000, 5000  # codes for libraries and applications
PING = b"\x89\x00"
ANSWER = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: {}\r\n"


def text_frame(payload: bytes) -> bytes:
    """Return a text frame, unmasked, as servers send it (5.2)."""
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
    """Return the code that answers a peer's close frame: its own, if it is one that may be sent (7.4)."""
    if code == 0:
        return NORMAL
    return code if code in SENDABLE or OURS <= code < BEYOND else PROTOCOL_ERROR


def pong_frame(payload: bytes) -> bytes:
    """Return the answer to a ping, which carries what the ping carried: 125 bytes at most (5.5.3)."""
    return bytes((0x8A, len(payload))) + payload


class Inbox(WebSocketDataQueue):
    """What the parser hands in, in its order: `take` carries a frame out at once, or returns what the task shall do.

    `read` returns what is to be done next: a message that nobody has looked at, or what `take` has left. It raises
    EofStream when the peer is gone, WebSocketError when it broke the protocol. `unfinished` counts the bytes that came and
    completed no message.
    """

    def __init__(self, request: web.Request) -> None:
        super().__init__(request.protocol, WAITING_BYTES, loop=asyncio.get_running_loop())
        self.take: Callable[[Any], Any] | None = None
        self.unfinished = 0
        self._behind = 0  # handed in, and not done yet

    @property
    def waiting(self) -> bool:
        """Whether a message has been handed in that `read` has not returned."""
        return self._behind > 0

    def feed_data(self, data: Any, size: int) -> None:
        """Take a message from the parser; it waits when others do."""
        self.unfinished -= size + PART_HEADERS
        if not self._behind and self.take is not None and (data := self.take(data)) is None:
            return
        self._behind += 1
        super().feed_data(data, size)

    def done(self) -> None:
        """What `read` returned has been done."""
        self._behind -= 1


class Parser:
    """aiohttp's parser, with a bound on parts of messages; `overrun` is called when it is passed."""

    def __init__(self, inbox: Inbox, overrun: Callable[[], None]) -> None:
        self._inbox = inbox
        self._overrun = overrun
        self._reader = WebSocketReader(inbox, MAX_FRAME + 1, compress=False, decode_text=False)
        self.feed_eof = self._reader.feed_eof

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Take bytes off the socket."""
        inbox = self._inbox
        inbox.unfinished = max(0, inbox.unfinished) + len(data)
        answer = self._reader.feed_data(data)
        # A stalled reader holds whole messages back, until those before them are done.
        if inbox.unfinished > MAX_UNFINISHED and inbox._stalled_reader is None:
            self._overrun()
        return answer


class Upgraded(web.StreamResponse):
    """What aiohttp gets when the socket has closed: everything has been written, and nothing follows."""

    def __init__(self) -> None:
        super().__init__(status=101)
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write nothing."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Write nothing."""


def accept_key(request: web.Request) -> str | None:
    """Return the answer to a request's key; None when it does not ask for an upgrade to a WebSocket (4.2.1)."""
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
    overrun: Callable[[], None],
) -> tuple[Inbox, Parser]:
    """Answer the upgrade, with these headers besides its own. From now on the parser hands in frames; keep it as long as the inbox is read.

    `overrun` is called when too many bytes come that complete no message.
    """
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    transport.write(f"{ANSWER.format(accept)}{head}\r\n".encode())
    inbox = Inbox(request)
    parser = Parser(inbox, overrun)
    request.protocol.keep_alive(False)
    request.protocol.set_parser(parser)  # type: ignore[arg-type]  # it calls these two methods alone
    return inbox, parser
