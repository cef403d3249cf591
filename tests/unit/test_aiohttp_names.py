"""The private names of aiohttp on which sockets depend (docs/decisions/0004-sockets-below-aiohttps-api.md).

If one of these tests fails after an update of aiohttp, read realtime/inbox.py and realtime/protocol.py against it.
"""

from typing import Any

import pytest
from aiohttp import WSMsgType, web
from aiohttp._websocket.reader import WebSocketDataQueue
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import WebSocketError, WebSocketReader

from realtime.inbox import MAX_FRAME

EMPTY_TEXT = b"\x81\x80\0\0\0\0"
USED_BY_PROTOCOL = {
    web.RequestHandler: {"_message_tail", "_messages", "_request_count", "_request_in_progress", "_task_handler"},
    BaseProtocol: {"_buffer_paused", "_upgraded", "transport"},
}


class Seen(WebSocketDataQueue):
    """A queue whose base class is not initialized, as that of a socket."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.errors: list[BaseException] = []

    def feed_data(self, data: Any, size: int) -> None:
        self.messages.append((data.type, bytes(data.data), size))

    def set_exception(self, exc: BaseException, exc_cause: BaseException | None = None) -> None:
        self.errors.append(exc)


def reader_of(queue: Seen) -> WebSocketReader:
    return WebSocketReader(queue, MAX_FRAME + 1, compress=False, decode_text=False)


@pytest.mark.parametrize(("kind", "names"), USED_BY_PROTOCOL.items())
def test_request_handler_has_the_names_that_hand_over_uses(kind: type, names: set[str]) -> None:
    assert names <= set(kind.__slots__)  # type: ignore[attr-defined]


def test_parser_passes_each_message_to_a_queue_that_was_not_initialized() -> None:
    seen = Seen()
    parser = reader_of(seen)
    parser.feed_data(b"\x81\x85\0\0\0\0hel")
    parser.feed_data(b"lo\x89\x81\0\0\0\0x")
    assert seen.messages == [(WSMsgType.TEXT, b"hello", 5), (WSMsgType.PING, b"x", 1)]


def test_parser_never_stalls_so_that_only_the_socket_limits_what_waits() -> None:
    seen = Seen()
    reader_of(seen).feed_data(EMPTY_TEXT * 100_000)
    assert len(seen.messages) == 100_000


def test_parser_reports_a_violation_after_the_messages_before_it() -> None:
    seen = Seen()
    reader_of(seen).feed_data(EMPTY_TEXT + b"\x83\x80\0\0\0\0" + EMPTY_TEXT)
    assert len(seen.messages) == 1
    (error,) = seen.errors
    assert isinstance(error, WebSocketError)
    assert error.code == 1002
