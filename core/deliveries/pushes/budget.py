"""The bound of pushes for one recipient (docs/security.md#limits).

It is counted in the process that plans pushes: a restart or a second process may let some more through, and no push
costs a call to a counter.
"""

import datetime as dt
from collections import deque

MOST = 60  # pushes for all devices of a recipient, in a minute of service time
FOR_URGENT = 20  # of these are kept for urgent ones
MINUTE = dt.timedelta(minutes=1)


class PushBudget:
    """Count the pushes that this process has planned for each recipient in the last minute."""

    def __init__(self) -> None:
        self._planned: dict[str, deque[dt.datetime]] = {}
        self._swept_at: dt.datetime | None = None

    def take(self, recipient_id: str, wanted: int, *, urgent: bool, now: dt.datetime) -> int:
        """Return how many of `wanted` pushes a recipient may get now, and count them."""
        self._sweep(now)
        planned = self._planned.setdefault(recipient_id, deque())
        while planned and planned[0] <= now - MINUTE:
            planned.popleft()
        granted = max(0, min(wanted, (MOST if urgent else MOST - FOR_URGENT) - len(planned)))
        planned.extend([now] * granted)
        return granted

    def _sweep(self, now: dt.datetime) -> None:
        """Once a minute, forget the recipients of older pushes."""
        if self._swept_at is not None and now < self._swept_at + MINUTE:
            return
        self._swept_at = now
        self._planned = {
            who: planned for who, planned in self._planned.items() if planned and planned[-1] > now - MINUTE
        }
