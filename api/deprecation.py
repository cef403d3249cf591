"""Deprecated routes, and the response headers that announce it (docs/migrating-to-payment-requests.md)."""

import datetime as dt
from email.utils import format_datetime
from urllib.parse import quote

# Each deprecated route, with everything below it, and the route that replaces it, if one is needed.
REPLACEMENTS: dict[str, str | None] = {
    "/api/client/payment/sessions": "/api/client/payment/requests",
    "/api/client/chat-pricing": "/api/client/chat/pricing",
    "/api/client/chat/request": None,  # the search of a confirmed request starts without it
}
SINCE = dt.datetime(2026, 11, 23, tzinfo=dt.UTC)
SUNSET = dt.datetime(2027, 12, 1, tzinfo=dt.UTC)
"""From this day on a release may remove the routes. Until then they answer as before."""
_PREFIXES = tuple(REPLACEMENTS)


def is_deprecated(path: str) -> bool:
    """Return whether clients should leave this path."""
    return _deprecated(path) is not None


def replacement_of(path: str) -> str | None:
    """Return the path that replaces a deprecated one; None if it needs no other, or is not deprecated."""
    old = _deprecated(path)
    if old is None or (new := REPLACEMENTS[old]) is None:
        return None
    return new + path.removeprefix(old)


def _deprecated(path: str) -> str | None:
    if not path.startswith(_PREFIXES):
        return None
    return next((old for old in REPLACEMENTS if path == old or path.startswith(f"{old}/")), None)


def headers_of(path: str) -> list[tuple[bytes, bytes]]:
    """Return the extra headers of answers of this path (RFC 9745, 8594 and 5829); empty unless it is deprecated."""
    if not is_deprecated(path):
        return []
    replacement = replacement_of(path)
    link = [] if replacement is None else [(b"link", f'<{quote(replacement)}>; rel="successor-version"'.encode())]
    return [
        (b"deprecation", f"@{int(SINCE.timestamp())}".encode()),
        (b"sunset", format_datetime(SUNSET, usegmt=True).encode()),
        *link,
    ]
