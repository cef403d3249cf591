"""States of a chat session (docs/product.md#states-of-a-session). A trigger in the database enforces the same edges."""

import enum


class SessionStatus(enum.StrEnum):
    """The state of a session."""

    SEARCHING = "searching"  # mitras are being invited
    ACTIVE = "active"  # paid time runs; messages flow
    EXPIRED = "expired"  # the paid time is over: the chat is frozen; an extension or a goodbye is possible
    CLOSING = "closing"  # both parties may say goodbye
    COMPLETED = "completed"  # final: the session is over
    CANCELLED = "cancelled"  # final: the search was cancelled
    FAILED = "failed"  # final: the search found no mitra


S = SessionStatus
EDGES: frozenset[tuple[SessionStatus, SessionStatus]] = frozenset(
    {
        (S.SEARCHING, S.ACTIVE),
        (S.SEARCHING, S.CANCELLED),
        (S.SEARCHING, S.FAILED),
        (S.ACTIVE, S.EXPIRED),
        (S.ACTIVE, S.CLOSING),
        (S.EXPIRED, S.ACTIVE),
        (S.EXPIRED, S.CLOSING),
        (S.EXPIRED, S.COMPLETED),
        (S.CLOSING, S.COMPLETED),
    }
)
FINAL = frozenset({S.COMPLETED, S.CANCELLED, S.FAILED})
LIVE = frozenset({S.SEARCHING, S.ACTIVE, S.EXPIRED})  # the customer can't start another session
HELD = frozenset({S.ACTIVE, S.EXPIRED})  # counts against the mitra's capacity
OPEN = frozenset({S.ACTIVE, S.EXPIRED, S.CLOSING})  # the apps of both parties still show it as running
