"""A chat as an app shows it, and what can be said about its session and its messages."""

import datetime as dt
import unicodedata

import attrs

from .errors import Refused
from .wire import Json

LONGEST_CONTENT = 4000  # characters
ORDER = ("searching", "active", "expired", "closing", "completed", "cancelled", "failed")
HELD = ("active", "expired")
RUNNING = (*HELD, "closing")


@attrs.frozen(kw_only=True)
class ShownMessage:
    """A message as an app shows it. `state` is `sending`, `sent`, `delivered`, `read` or `refused`."""

    client_message_id: str
    own: bool
    content: str
    metadata: Json | None
    state: str
    id: str | None = None  # None until the service has stored the message
    seq: int | None = None
    created_at: str | None = None
    blanked: bool = False
    error: str | None = None  # the code of the refusal


@attrs.frozen(kw_only=True)
class Chat:
    """A chat as an app shows it."""

    session: Json
    messages: list[ShownMessage]
    extension: Json | None  # the newest request for more minutes
    typing: bool  # whether the other party types
    peer_absent: str | None  # since when the other party has been away
    credit: Json | None  # `session_clock_adjusted`: the newest time that was given back
    warned: bool  # whether the service has warned of the present end
    digest: str  # `equal` to the service's, `different` also after it was read again, or `unchecked`
    unread: int


@attrs.define
class Details:
    """What a chat has besides the session and its messages."""

    extension: Json | None = None
    typing_until: float = 0.0  # on the event loop's clock
    absent_since: str | None = None
    credit: Json | None = None
    warned_for: str | None = None  # the `expires_at` that the warning was about
    read_up_to: int = 0
    typed_at: float | None = None


def check_content(content: str) -> None:
    """Check what can never be sent; that something is visible is left to the service. Raises Refused."""
    text = unicodedata.normalize("NFC", content)
    if not 1 <= len(text) <= LONGEST_CONTENT or any(_is_control(sign) for sign in text):
        message = "must be 1 to 4,000 characters long, without control characters"
        details = {"fields": [{"field": "content", "message": message}]}
        error = {"code": "VALIDATION_ERROR", "message": f"The message {message}.", "details": details}
        raise Refused(0, {"error": error})


def _is_control(sign: str) -> bool:
    return sign not in "\t\n\r" and unicodedata.category(sign) in ("Cc", "Cs")


def rank(session: Json) -> int:
    """Return how far a session is."""
    return ORDER.index(session["status"])


def is_later(session: Json, known: Json) -> bool:
    """Return whether a view is not an earlier one than the known.

    A session only goes forward, except that an extension, or time that is given back, makes it active again until a
    later time.
    """
    if max(rank(session), rank(known)) > ORDER.index("expired") or _end(session) == _end(known):
        return rank(session) >= rank(known)
    return _end(session) > _end(known)


def _end(session: Json) -> float:
    expires_at = session.get("expires_at")
    return 0.0 if expires_at is None else dt.datetime.fromisoformat(expires_at).timestamp()
