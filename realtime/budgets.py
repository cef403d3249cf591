"""Rate limits of frames and messages: token buckets for each user, shared by all of the user's sockets in this process.

A Budget is kept while its user has a socket here, and then until its buckets must be full again. A full bucket equals a
new one, so reconnecting gains nothing and memory stays bounded.
"""

import math
from collections import OrderedDict

from core.settings.settings import Settings

# The cost of frames that read the database. Others cost 1, and more if they name another user's session or an unknown
# event.
SYNC_COST = AUTH_COST = 5
STRANGE_COST = 19  # charged in addition to the frame's 1, for a session that is another user's or doesn't exist
KEPT = 100_000  # budgets of users without a socket
KEPT_SESSIONS = 64  # message buckets of one user; beyond this, full ones are dropped
STRANGE_S = 5.0  # real seconds for which a session is remembered as not the user's
KEPT_STRANGE = 32  # such sessions of one user
HOLD_S = 10.0  # real seconds from the moment at which the earliest refused message could have been sent again
# Refused messages of a socket and session whose order is kept; the frame budget closes the socket long before that.
KEPT_REFUSED = 1000


class TokenBucket:
    """A bucket that gains `rate` tokens a second and holds at most `burst`. Times are monotonic seconds."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._at = now

    def take(self, cost: float, now: float) -> bool:
        """Take `cost` tokens. Return False, and take none, if there are fewer."""
        tokens = self._tokens + (now - self._at) * self._rate
        if tokens > self._burst:
            tokens = self._burst
        self._at = now
        if tokens < cost:
            self._tokens = tokens
            return False
        self._tokens = tokens - cost
        return True

    def seconds_until(self, cost: float) -> int:
        """Return the whole seconds, at least 1, from the last `take` until the bucket holds `cost` tokens."""
        return max(1, math.ceil((cost - self._tokens) / self._rate))

    def is_full(self, now: float) -> bool:
        """Return whether the bucket is full, as a new one is."""
        return self._tokens + (now - self._at) * self._rate >= self._burst


class Budget:
    """The token buckets of one user."""

    __slots__ = (
        "_limits",
        "_messages",
        "_strange",
        "arrivals",
        "frames",
        "refusals",
        "rested_at",
        "sockets",
        "user_id",
    )

    def __init__(self, limits: "Budgets", user_id: str, now: float) -> None:
        self._limits = limits
        self.user_id = user_id
        self.frames = limits.frames(now)
        # Snapshots for new sockets: opening sockets again and again costs the same as repeating `auth` on one.
        self.arrivals = limits.frames(now)
        # Refused frames that get an answer: without a limit, the answers themselves could be used for a flood.
        self.refusals = limits.frames(now)
        self.sockets = 0
        self.rested_at = now
        self._messages: dict[str, TokenBucket] = {}
        self._strange: OrderedDict[str, float] = OrderedDict()

    def messages(self, session_id: str, now: float) -> TokenBucket:
        """Return the user's bucket for the messages of a session."""
        bucket = self._messages.get(session_id)
        if bucket is None:
            if len(self._messages) >= KEPT_SESSIONS:
                self._messages = {key: one for key, one in self._messages.items() if not one.is_full(now)}
            bucket = self._messages[session_id] = self._limits.messages(now)
        return bucket

    def is_strange(self, session_id: str, now: float) -> bool:
        """Return whether the database said within the last STRANGE_S seconds that the session is not the user's."""
        return self._strange.get(session_id, 0.0) > now

    def remember_strange(self, session_id: str, now: float) -> None:
        """Remember for STRANGE_S seconds that a session is not the user's."""
        self._strange.pop(session_id, None)
        self._strange[session_id] = now + STRANGE_S
        if len(self._strange) > KEPT_STRANGE:
            self._strange.popitem(last=False)

    def forget_strange(self) -> None:
        """Forget these sessions, because the user's account may have changed."""
        self._strange.clear()


class Budgets:
    """The budgets of this process's users."""

    def __init__(self, settings: Settings) -> None:
        self._frames = float(settings.ws_frames_per_second), float(settings.ws_frames_burst)
        self._messages = float(settings.ws_messages_per_second), float(settings.ws_messages_burst)
        self._full_after_s = max(burst / rate for rate, burst in (self._frames, self._messages))
        self._used: dict[str, Budget] = {}
        self._resting: OrderedDict[str, Budget] = OrderedDict()  # of users without a socket, longest without one first

    def __len__(self) -> int:
        return len(self._used) + len(self._resting)

    def frames(self, now: float) -> TokenBucket:
        """Return a full bucket for frames."""
        return TokenBucket(*self._frames, now)

    def messages(self, now: float) -> TokenBucket:
        """Return a full bucket for the messages of a session."""
        return TokenBucket(*self._messages, now)

    def open(self, user_id: str, now: float) -> Budget:
        """Return the user's budget and count one more socket for it; `close` undoes that."""
        budget = self._used.get(user_id) or self._resting.pop(user_id, None) or Budget(self, user_id, now)
        budget.sockets += 1
        self._used[user_id] = budget
        return budget

    def close(self, budget: Budget, now: float) -> None:
        """Count one socket less for a budget. Without a socket, a budget is kept until its buckets are full."""
        budget.sockets -= 1
        if budget.sockets == 0:
            budget.rested_at = now
            del self._used[budget.user_id]
            self._resting[budget.user_id] = budget
        while self._resting:
            longest = next(iter(self._resting.values()))
            if longest.rested_at + self._full_after_s > now and len(self._resting) <= KEPT:
                return
            self._resting.popitem(last=False)


class RefusedMessages:
    """The messages of one socket and session that were refused and not repeated yet, earliest first.

    A message over the limit is refused with TOO_FAST, and the socket stays open. From then on, messages of that socket
    and session are accepted in the order in which they were refused: a later one is refused as well until the earlier
    ones have been repeated. So the messages of a client that pipelines too many, or keeps sending, are never stored out
    of order. A refused message that the client does not repeat holds up the others for HOLD_S seconds at most.
    """

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
    if len(earlier.client_ids) < KEPT_REFUSED:
        earlier.client_ids.setdefault(own_id)
    return wait
