"""The WebSocket protocol (RFC 6455): the upgrade and the encoding of frames.

Section numbers in docstrings are those of RFC 6455. realtime/inbox.py has what is received.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from aiohttp import hdrs
from aiohttp.http import WS_KEY

from realtime.close_codes import PROTOCOL_ERROR

NORMAL = 1000
SENDABLE = frozenset({NORMAL, 1001, PROTOCOL_ERROR, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014})
OURS, BEYOND = 3000, 5000  # codes for libraries and applications
PING = b"\x89\x00"
ANSWER = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: {}\r\n"


class Headers(Protocol):
    """The headers of a request; a name may occur more than once."""

    def get(self, key: str, /) -> str | None:
        """Return the first value of a header."""
        ...

    def getall(self, key: str, default: Sequence[str], /) -> Sequence[str]:
        """Return all values of a header."""
        ...


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


def accept_key(headers: Headers) -> str | None:
    """Return the `Sec-WebSocket-Accept` of a request, or None if it is not a valid WebSocket upgrade (4.2.1)."""
    tokens = {token.strip().lower() for token in ",".join(headers.getall(hdrs.CONNECTION, ())).split(",")}
    key = headers.get(hdrs.SEC_WEBSOCKET_KEY) or ""
    try:
        sane = len(base64.b64decode(key, validate=True)) == 16
    except (binascii.Error, ValueError):
        return None
    if (
        not sane
        or "upgrade" not in tokens
        or (headers.get(hdrs.UPGRADE) or "").strip().lower() != "websocket"
        or headers.get(hdrs.SEC_WEBSOCKET_VERSION) != "13"
    ):
        return None
    return base64.b64encode(hashlib.sha1(key.encode() + WS_KEY, usedforsecurity=False).digest()).decode()


def answer(accept: str, headers: Mapping[str, str]) -> bytes:
    """Return the answer to an upgrade, with `headers` in addition to its own (4.2.2)."""
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{ANSWER.format(accept)}{head}\r\n".encode()
