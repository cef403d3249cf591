"""The one place where ids and secrets are made.

Ids are UUIDs of version 7 (RFC 9562): they begin with the time, so that new rows go to the end of an index. In Python an
id is its canonical text: lower case, with dashes.
"""

import datetime as dt
import hashlib
import os
import re
import secrets
import time

POOL_BYTES = 4096  # of randomness, fetched at once: a call of the system for each id is most of its cost
_CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)


class _Pool:
    """Randomness in stock."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Throw the stock away: a forked process must not use its parent's."""
        self._bytes = b""
        self._at = 0

    def take(self, size: int) -> bytes:
        """Return so many bytes that nobody has had."""
        end = self._at + size
        if end > len(self._bytes):
            self._bytes, end = os.urandom(POOL_BYTES), size
        self._at = end
        return self._bytes[end - size : end]


_POOL = _Pool()
os.register_at_fork(after_in_child=_POOL.forget)


def new_id() -> str:
    """Make a UUIDv7. Its time is the machine's: it orders rows, it is no fact. For one thread at a time."""
    return _version_7(time.time_ns() // 1_000_000, _POOL.take(10))


def id_of(moment: dt.datetime, name: bytes) -> str:
    """Return the UUIDv7 that stands for a name at a moment: the same for all who ask for the same two."""
    return _version_7(int(moment.timestamp() * 1000), hashlib.sha256(name).digest()[:10])


def _version_7(milliseconds: int, more: bytes) -> str:
    raw = bytearray(milliseconds.to_bytes(6, "big") + more)
    raw[6] = 0x70 | raw[6] & 0x0F
    raw[8] = 0x80 | raw[8] & 0x3F
    h = raw.hex()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


def parse_id(text: object) -> str | None:
    """Return the canonical form of a UUID written with dashes, in either case; None for anything else."""
    if not isinstance(text, str):
        return None
    lowered = text.lower()
    return lowered if _CANONICAL.fullmatch(lowered) else None


def new_secret(size: int = 32) -> bytes:
    """Make `size` random bytes (32 bytes are 256 bits)."""
    return secrets.token_bytes(size)


def new_code(digits: int = 6) -> str:
    """Make a numeric code, leading zeros included."""
    return str(secrets.randbelow(10**digits)).zfill(digits)


def new_password() -> str:
    """Make a password for a person to copy once."""
    return secrets.token_urlsafe(18)
