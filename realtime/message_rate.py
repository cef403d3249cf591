"""How fast a user may send messages in a session, and the order in which refused messages come back.

How this works: a message over the rate is refused with TOO_FAST and the socket stays open. From then on the socket's messages of
that session are taken in the order in which they were refused: a later one is refused too until the earlier ones have been sent
again. So a client that had more messages under way than it may send, or that goes on sending, never has them stored out of order.
A message that the client does not send again holds the others up for HOLD_S and no longer.
"""

from realtime.budgets import Budget

HOLD_S = 10.0  # real seconds from the moment at which the earliest refused message could have been sent again
KEPT = (
    1000  # refused messages of a socket and session whose order is kept; the frame budget cuts a client off long before
)


class RefusedMessages:
    """The messages of one socket and session that were refused and have not been sent again, earliest first."""

    __slots__ = ("client_ids", "until")

    def __init__(self) -> None:
        self.client_ids: dict[str, None] = {}
        self.until = 0.0  # monotonic; forgotten then


def wait_of(
    budget: Budget, refused: dict[str, RefusedMessages], session_id: str, client_message_id: str, now: float
) -> int:
    """Return 0 when a message may be stored now, else the seconds after which the client sends it again.

    `refused` are the refused messages of the socket, by session; a message that is refused is added to them.
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
