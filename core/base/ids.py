"""Make ids and secrets; no other module does.

Ids are UUIDs of version 7 (RFC 9562): they begin with the time, so that new rows go to the end of an index. In Python
an id is its canonical text: lower case, with dashes.
"""

import datetime as dt
import hashlib
import os
import re
import secrets
import threading
import time
from collections.abc import Callable

from core.base.field_types import Id

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROSECOND = dt.timedelta(microseconds=1)
POOL_BYTES = 4096  # of randomness per system call: a call for each id would be most of an id's cost
PLAIN_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)


class _Pool:
    """A buffer of random bytes."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Empty the buffer: a forked process must not use its parent's bytes."""
        self._bytes = b""
        self._at = 0

    def take(self, size: int) -> bytes:
        """Return `size` bytes that were not returned before."""
        end = self._at + size
        if end > len(self._bytes):
            self._bytes, end = os.urandom(POOL_BYTES), size
        self._at = end
        return self._bytes[end - size : end]


class _Times:
    """Strictly increasing time parts of ids: 48 bits of milliseconds and 12 bits of their fraction (RFC 9562, 6.2)."""

    def __init__(self) -> None:
        self._last = 0

    def next(self, microseconds: int) -> int:
        """Return the time part for `microseconds` since 1970, or the last part plus 1 if that is larger."""
        milliseconds, rest = divmod(microseconds, 1000)
        self._last = max(milliseconds << 12 | (rest << 12) // 1000, self._last + 1)
        return self._last


def _machine_time() -> int:
    return time.time_ns() // 1000


class _Source:
    """The clock of ids, in microseconds since 1970, and the only thread that may make ids (None: any thread)."""

    now: Callable[[], int] = staticmethod(_machine_time)
    thread: int | None = None


_POOL, _SOURCE = _Pool(), _Source()
_TIMES, _EVENT_TIMES = _Times(), _Times()


def _forget() -> None:
    _POOL.forget()
    _SOURCE.now, _SOURCE.thread = _machine_time, None


os.register_at_fork(after_in_child=_forget)


def follow(now: Callable[[], int]) -> None:
    """Take the time of new ids from `now` (microseconds since 1970); only the calling thread may make ids then."""
    _SOURCE.now, _SOURCE.thread = now, threading.get_ident()


def new_id() -> Id:
    """Make a UUIDv7 that is larger than every earlier one of this process.

    Its time orders rows. Don't read it as the time of an event.
    """
    return Id(_random(_TIMES.next(_SOURCE.now())))


def new_event_id(at: dt.datetime) -> str:
    """Make the id of an event: a UUIDv7 for `at`, larger than every earlier event id of this process.

    `at` is the database's clock, read while the event's session is locked. So the event ids of a session increase,
    whichever processes make them.
    """
    return _random(_EVENT_TIMES.next((at - EPOCH) // MICROSECOND))


def _random(time_part: int) -> str:
    assert _SOURCE.thread in (None, threading.get_ident()), "only the thread of the event loop makes ids"
    return _version_7(time_part >> 12, (time_part & 0xFFF).to_bytes(2, "big") + _POOL.take(8))


def id_of(moment: dt.datetime, name: bytes) -> str:
    """Return a UUIDv7 derived from a moment and a name: the same arguments always give the same id."""
    return _version_7(int(moment.timestamp() * 1000), hashlib.sha256(name).digest()[:10])


def without_time(id_: str) -> str:
    """Return the part of a UUIDv7 that `id_of` derives from the name."""
    return id_[14:]


def _version_7(milliseconds: int, more: bytes) -> str:
    raw = bytearray(milliseconds.to_bytes(6, "big") + more)
    raw[6] = 0x70 | raw[6] & 0x0F
    raw[8] = 0x80 | raw[8] & 0x3F
    h = raw.hex()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


def parse_id(text: object) -> Id | None:
    """Return the canonical form of a UUID written with dashes, in either case; None for anything else."""
    if not isinstance(text, str):
        return None
    lowered = text.lower()
    return Id(lowered) if _CANONICAL.fullmatch(lowered) else None


def new_secret(size: int = 32) -> bytes:
    """Return `size` random bytes."""
    return secrets.token_bytes(size)


def new_code(digits: int = 6) -> str:
    """Make a numeric code, leading zeros included."""
    return str(secrets.randbelow(10**digits)).zfill(digits)


def new_password() -> str:
    """Make a random password that a person copies once."""
    return secrets.token_urlsafe(18)


def request_id(given: str) -> str:
    """Return a request's id: the client's own if it is 1 to 128 plain characters, else a new one."""
    return given if PLAIN_REQUEST_ID.fullmatch(given) else new_id()
