"""Deprecated routes, and the response headers that announce it (docs/migrating-to-payment-requests.md)."""

import datetime as dt
from email.utils import format_datetime
from urllib.parse import quote

# Each deprecated route, with everything below it, and the route that replaces it.
REPLACEMENTS = {
    "/api/client/payment/sessions": "/api/client/payment/requests",
    "/api/client/chat-pricing": "/api/client/chat/pricing",
    "/api/client/chat/request": "/api/client/payment/requests",
}
SINCE = dt.datetime(2026, 11, 23, tzinfo=dt.UTC)
SUNSET = dt.datetime(2027, 12, 1, tzinfo=dt.UTC)
"""A release after this day may remove the routes. Until then they answer like their replacements."""
_PREFIXES = tuple(REPLACEMENTS)


def replacement_of(path: str) -> str | None:
    """Return the path that replaces a deprecated one; None if the path is not deprecated."""
    if not path.startswith(_PREFIXES):
        return None
    for old, new in REPLACEMENTS.items():
        if path == old or path.startswith(f"{old}/"):
            return new + path.removeprefix(old)
    return None


def headers_of(path: str) -> list[tuple[bytes, bytes]]:
    """Return the extra headers of answers of this path (RFC 9745, 8594 and 5829); empty unless it is deprecated."""
    replacement = replacement_of(path)
    if replacement is None:
        return []
    return [
        (b"deprecation", f"@{int(SINCE.timestamp())}".encode()),
        (b"sunset", format_datetime(SUNSET, usegmt=True).encode()),
        (b"link", f'<{quote(replacement)}>; rel="successor-version"'.encode()),
    ]
