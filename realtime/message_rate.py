"""The rate limit of a user's messages in a session, and the order in which refused messages may be repeated.

A message over the limit is refused with TOO_FAST, and the socket stays open. From then on, messages of that socket and
session are accepted in the order in which they were refused: a later one is refused as well until the earlier ones have
been repeated. So the messages of a client that pipelines too many, or keeps sending, are never stored out of order. A
refused message that the client does not repeat holds up the others for HOLD_S seconds at most.
"""

from realtime.budgets import Budget

HOLD_S = 10.0  # real seconds from the moment at which the earliest refused message could have been sent again
# Refused messages of a socket and session whose order is kept; the frame budget closes the socket long before that.
KEPT = 1000


class RefusedMessages:
    """The messages of one socket and session that were refused and not repeated yet, earliest first."""

    __slots__ = ("client_ids", "until")

    def __init__(self) -> None:
        self.client_ids: dict[str, None] = {}
        self.until = 0.0  # monotonic time at which they are forgotten


def wait_of(
    budget: Budget, refused: dict[str, RefusedMessages], session_id: str, client_message_id: str, now: float
) -> int:
    """Return 0 if a message may be stored now, or else the seconds after which the client should send it again.

    `refused` has the refused messages of the socket by session id; if this message is refused, it is added.
    """
    bucket = budget.messages(session_id, now)
    earlier = refused.get(session_id) if refused else None
    if earlier is None:
        if bucket.take(1, now):
            return 0
        earlier = refused[session_id] = RefusedMessages()
    elif earlier.until <= now:
        del refused[session_id]
        return wait_of(budget, refused, session_id, client_message_id, now)
    own_id = client_message_id.lower()
    first = next(iter(earlier.client_ids), own_id)
    if own_id == first and bucket.take(1, now):
        earlier.client_ids.pop(own_id, None)
        earlier.until = now + HOLD_S
        if not earlier.client_ids:
            del refused[session_id]
        return 0
    wait = bucket.seconds_until(1)
    if own_id == first:
        earlier.until = now + wait + HOLD_S
    if len(earlier.client_ids) < KEPT:
        earlier.client_ids.setdefault(own_id)
    return wait
