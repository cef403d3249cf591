"""The state machine of a chat session (docs/product.md#states-of-a-session).

A trigger in the database enforces the same edges. The diagram and the tables of the page are made from this module.
"""

from collections.abc import Mapping

from core.base.languages import Text
from core.base.machine import EdgeCause, Edges, Initiator, State, final

CUSTOMER, MITRA, OPERATOR = Initiator.CUSTOMER, Initiator.MITRA, Initiator.OPERATOR
API, JOBS = Initiator.API, Initiator.JOBS


class SessionStatus(State):
    """The state of a session."""

    SEARCHING = "searching", "Mitras are being asked.", Text(en="searching", id="mencari")
    ACTIVE = "active", "The paid time runs and messages flow.", Text(en="active", id="aktif")
    EXPIRED = (
        "expired",
        "The paid time is over. The chat is frozen; an extension or a goodbye is possible.",
        Text(en="time is up", id="waktu habis"),
    )
    CLOSING = (
        "closing",
        "A party or an operator has ended the chat. Both parties may say goodbye.",
        Text(en="closing", id="berpamitan"),
    )
    COMPLETED = "completed", "The session is over.", Text(en="completed", id="selesai")
    CANCELLED = (
        "cancelled",
        "The search was cancelled before a mitra accepted.",
        Text(en="cancelled", id="dibatalkan"),
    )
    FAILED = "failed", "The search found no mitra.", Text(en="no mitra found", id="tidak ada mitra")


S = SessionStatus
INITIAL: Mapping[SessionStatus, tuple[EdgeCause, ...]] = {
    S.SEARCHING: (EdgeCause("A payment request is confirmed, and it is not an extension.", API, JOBS),),
}
EDGES: Edges[SessionStatus] = {
    (S.SEARCHING, S.ACTIVE): (EdgeCause("A mitra accepts. The first one wins.", MITRA),),
    (S.SEARCHING, S.CANCELLED): (
        EdgeCause("The customer cancels the search.", CUSTOMER),
        EdgeCause("An operator ends it.", OPERATOR),
    ),
    (S.SEARCHING, S.FAILED): (
        EdgeCause("The search's time is over, or the targeted mitra has not answered in time.", JOBS),
        EdgeCause("The targeted mitra rejects, or every mitra asked has rejected and no other is eligible.", MITRA),
        EdgeCause("The targeted mitra goes offline.", MITRA, OPERATOR, JOBS),
        EdgeCause("The targeted mitra is offline or full when the search begins.", API, JOBS),
    ),
    (S.ACTIVE, S.EXPIRED): (EdgeCause("`expires_at` has passed.", JOBS),),
    (S.ACTIVE, S.CLOSING): (
        EdgeCause("A party ends the session early, if the switch for their side is on.", CUSTOMER, MITRA),
        EdgeCause("An operator ends it.", OPERATOR),
    ),
    (S.EXPIRED, S.ACTIVE): (
        EdgeCause("An extension is approved.", MITRA),
        EdgeCause("The mitra does not answer it in time, and silence approves.", JOBS),
    ),
    (S.EXPIRED, S.CLOSING): (
        EdgeCause("A party ends the session or says goodbye.", CUSTOMER, MITRA),
        EdgeCause("An operator ends it.", OPERATOR),
    ),
    (S.EXPIRED, S.COMPLETED): (
        EdgeCause("5 minutes have passed since `expires_at`, and no extension is pending.", JOBS),
    ),
    (S.CLOSING, S.COMPLETED): (
        EdgeCause("The second goodbye is said.", CUSTOMER, MITRA),
        EdgeCause("5 minutes have passed since the session started closing.", JOBS),
    ),
}
FINAL = final(SessionStatus, EDGES)
# Sets of states. SQL asks for them by functions, such as `is_held(status)`, which `make migration` writes.
HELD = frozenset({S.ACTIVE, S.EXPIRED})  # counts against the mitra's capacity
LIVE = HELD | {S.SEARCHING}  # the customer can't start another session
OPEN = HELD | {S.CLOSING}  # the apps of both parties still show it as running
UNENDED = frozenset(SessionStatus) - FINAL
CLOSABLE = frozenset({S.EXPIRED, S.CLOSING})  # has a grace period, in which the parties may say goodbye
ENDED = frozenset({S.CLOSING, S.COMPLETED})  # can't be ended again; one that is closing is UNENDED too
PAIRED = OPEN | {S.COMPLETED}  # has a mitra and an end
UNPAIRED = frozenset({S.CANCELLED, S.FAILED})  # ended without a mitra
