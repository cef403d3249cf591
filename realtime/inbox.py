"""The protocol of an upgraded connection: received bytes become messages, which are handled in order of arrival.

aiohttp's parser is used without its request, which would last as long as the socket, with two tasks and the parsed
headers. A message that needs no waiting is handled while it is parsed. Only the others start a task, which ends when
none is left, so an idle socket has none.
"""

import collections
import contextlib
from typing import Any, Protocol

from aiohttp._websocket.reader import WebSocketDataQueue
from aiohttp.http import WebSocketError, WebSocketReader

from core.telemetry import logs
from realtime.close_codes import TOO_FAST
from realtime.connection import Connection

MAX_FRAME = 16_384  # bytes; the parser's own limit is exclusive, so it gets one more
# Bytes that may arrive without completing a message: a whole frame and the headers of its fragments. The parser does
# not report fragments, so this is the only limit for a flood of empty ones.
MAX_UNFINISHED = MAX_FRAME + 4096
PART_HEADERS = 256  # bytes of headers of a message that are not counted
WAITING_BYTES = 65_536  # of messages that wait for the task; at twice as many, reading pauses
MESSAGE_BYTES = 128  # added to the size of each, so that empty ones count
PART = 16_384  # bytes that are parsed at a time: all messages in them may have to wait

CLOSED = object()  # returned by `Receiver.take` if the socket ends

log = logs.get("socket")


class Receiver(Protocol):
    """What handles the messages of a socket (realtime/socket.py)."""

    def take(self, connection: Connection, message: Any) -> Any:
        """Handle a message if that needs no waiting and return None; else return the work that is left, or CLOSED."""
        ...

    async def carry_out(self, connection: Connection, left: Any) -> None:
        """Do the work that `take` left."""
        ...

    def flooded(self, connection: Connection) -> None:
        """Close a socket with too many bytes of an unfinished message."""
        ...

    def ended(self, connection: Connection, code: int | None, *, lost: bool) -> None:
        """Forget a socket whose messages have all been handled.

        `code` is the close code if the peer violated the protocol; `lost`: the connection is closed already.
        """
        ...


class SocketInbox(WebSocketDataQueue):
    """The protocol of one socket, and the queue that aiohttp's parser writes into.

    The base class is not initialized. Its own queue would take 760 bytes, and the parser needs only the type: it calls
    `feed_data` and `set_exception`, and reads two sizes that stay 0 (tests/unit/test_aiohttp_names.py).
    """

    __slots__ = (
        "_connection", "_error", "_is_busy", "_is_lost", "_is_over", "_is_paused", "_parser", "_receiver", "_rest",
        "_unfinished", "_waiting", "_waiting_bytes",
    )  # fmt: skip

    def __init__(self, connection: Connection, receiver: Receiver) -> None:
        self._connection = connection
        self._receiver = receiver
        self._parser: WebSocketReader | None = WebSocketReader(self, MAX_FRAME + 1, compress=False, decode_text=False)
        self._unfinished = 0  # bytes that arrived without completing a message
        self._rest = b""  # received while too much was waiting, and not parsed yet
        self._waiting: collections.deque[tuple[Any, int]] | None = None  # for the task, each with its size
        self._waiting_bytes = 0
        self._is_busy = False  # there is a task
        self._is_paused = False  # reading is paused, because too much is waiting
        self._is_lost = False  # the connection is closed
        self._is_over = False  # all messages have been handled, or are ignored
        self._error: BaseException | None = None

    # -- what the transport calls

    def data_received(self, data: bytes) -> None:
        """Parse received bytes and handle their messages."""
        if self._is_over or self._error is not None:
            return
        if len(data) <= PART and not self._is_paused:
            self._parse(data)
            if self._waiting_bytes > 2 * WAITING_BYTES:
                self._pause()
        else:
            self._rest += data
            self._parse_rest()

    def eof_received(self) -> None:
        """Let the transport close."""

    def connection_lost(self, _exc: BaseException | None) -> None:
        """End the socket when its last message has been handled."""
        self._is_lost = True
        if not self._is_busy:
            self._end()

    def pause_writing(self) -> None:
        """Do nothing: `Connection.flush` limits what a client has not read."""

    def resume_writing(self) -> None:
        """Do nothing."""

    # -- what the parser calls

    def feed_data(self, data: Any, size: int) -> None:
        """Handle a message, or let it wait behind others."""
        self._unfinished -= size + PART_HEADERS
        if self._is_over:
            return
        if not self._is_busy:
            left = self._receiver.take(self._connection, data)
            if left is CLOSED:
                self._end()
            elif left is not None:
                self._is_busy = True
                self._connection.host.spawn(self._work(left))
            return
        if self._waiting is None:
            self._waiting = collections.deque()
        size += MESSAGE_BYTES
        self._waiting.append((data, size))
        self._waiting_bytes += size

    def set_exception(self, exc: BaseException, exc_cause: BaseException | None = None) -> None:
        """End the socket after the messages before a violation of the protocol."""
        self._error = exc
        if not self._is_busy:
            self._end()

    # -- parsing

    def _parse(self, data: bytes) -> None:
        if self._parser is None:  # a message before these bytes has ended the socket
            return
        self._unfinished = max(0, self._unfinished) + len(data)
        self._parser.feed_data(data)
        if self._unfinished > MAX_UNFINISHED and self._error is None:
            self._receiver.flooded(self._connection)

    def _parse_rest(self) -> None:
        """Parse what has arrived, until too much is waiting; read on if little is."""
        while self._rest and self._waiting_bytes <= 2 * WAITING_BYTES and self._error is None:
            part, self._rest = self._rest[:PART], self._rest[PART:]
            self._parse(part)
        if self._rest or self._waiting_bytes > 2 * WAITING_BYTES:
            self._pause()
        elif self._is_paused:
            self._is_paused = False
            if self._connection.refused_with != TOO_FAST:  # which has paused reading for good
                with contextlib.suppress(RuntimeError):  # the transport is closing
                    self._connection.transport.resume_reading()

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            with contextlib.suppress(RuntimeError):  # the transport is closing
                self._connection.transport.pause_reading()

    # -- messages that wait

    async def _work(self, left: Any) -> None:
        """Do what is left of a message, and then handle the messages that have arrived since."""
        try:
            while left is not CLOSED:
                if left is not None:
                    await self._receiver.carry_out(self._connection, left)
                if self._waiting:
                    left = self._next()
                    continue
                self._waiting = None
                self._is_busy = False
                if self._is_lost or self._error is not None:
                    break
                return
            else:
                self._error = None  # a violation behind the end does not count
        except ConnectionError:
            pass
        except Exception:
            log.exception("websocket failed")
            self._connection.transport.abort()
        self._end()

    def _next(self) -> Any:
        """Handle the next message that waits; return the work that is left of it, as `take` does."""
        assert self._waiting is not None
        message, size = self._waiting.popleft()
        self._waiting_bytes -= size
        if self._is_paused and self._waiting_bytes <= WAITING_BYTES:
            self._parse_rest()
        return self._receiver.take(self._connection, message)

    def _end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._parser = self._waiting = None  # the parser has a reference to this object
        self._rest = b""
        error = self._error
        if error is not None and not isinstance(error, WebSocketError):
            log.error("parsing a frame failed", exc_info=error)
            self._connection.transport.abort()
        code = error.code if isinstance(error, WebSocketError) else None
        self._error = None
        self._receiver.ended(self._connection, code, lost=self._is_lost)
