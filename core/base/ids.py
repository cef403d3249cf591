"""The one place where ids and secrets are made.

Ids are UUIDs of version 7 (RFC 9562): they begin with the time, so that new rows go to the end of an index. In Python an
id is its canonical text: lower case, with dashes.
"""

import os
import re
import secrets
import time

_CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)


def new_id() -> str:
    """Make a UUIDv7. Its time is the machine's: it orders rows, it is no fact."""
    raw = bytearray((time.time_ns() // 1_000_000).to_bytes(6, "big") + os.urandom(10))
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
