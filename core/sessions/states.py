"""States of a chat session (contract 5). A trigger holds the database to the same edges."""

import enum


class SessionStatus(enum.StrEnum):
    """Where a session is."""

    SEARCHING = "searching"  # mitras are being asked
    ACTIVE = "active"  # paid time runs; messages flow
    EXPIRED = "expired"  # the time is up: chat is frozen, an extension or a goodbye is possible
    CLOSING = "closing"  # goodbyes are being said
    COMPLETED = "completed"  # over. Final
    CANCELLED = "cancelled"  # the customer left before a mitra came. Final
    FAILED = "failed"  # nobody came. Final


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
LIVE = frozenset({S.SEARCHING, S.ACTIVE, S.EXPIRED})  # the customer can't start another
HELD = frozenset({S.ACTIVE, S.EXPIRED})  # counts against the mitra's capacity
OPEN = frozenset({S.ACTIVE, S.EXPIRED, S.CLOSING})  # both parties still see it as running
