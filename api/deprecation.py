"""Routes that clients should leave, and the headers that say so (docs/migrating-to-payment-requests.md)."""

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
"""From this day on a release may remove the routes; until then they answer as their replacements do."""
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
    """Return the headers that an answer of this path carries: RFC 9745, RFC 8594 and RFC 5829; none for most paths."""
    replacement = replacement_of(path)
    if replacement is None:
        return []
    return [
        (b"deprecation", f"@{int(SINCE.timestamp())}".encode()),
        (b"sunset", format_datetime(SUNSET, usegmt=True).encode()),
        (b"link", f'<{quote(replacement)}>; rel="successor-version"'.encode()),
    ]
