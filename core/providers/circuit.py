"""A circuit breaker: a provider that fails repeatedly is not called for a while."""

import math

from core.base.clock import monotonic

FAILURES = 5  # in a row; each process counts separately
# Real seconds. Short, because customers must be able to pay within 5 s after the provider recovers.
OPEN_S = 2.0


class Circuit:
    """Closed after a success. Open after FAILURES failed calls in a row; then one call is let through every OPEN_S."""

    def __init__(self) -> None:
        self._failures = 0
        self._open_until = 0.0

    def wait_s(self) -> int:
        """Return the whole seconds until the next call may be made; 0 if it may be made now."""
        if self._failures < FAILURES:
            return 0
        return max(0, math.ceil(self._open_until - monotonic()))

    def admit(self) -> bool:
        """Return whether a call may be made.

        In an open circuit only one call is let through; others must wait until it has failed or OPEN_S has passed.
        """
        if self.wait_s():
            return False
        if self._failures >= FAILURES:
            self._open_until = monotonic() + OPEN_S
        return True

    def succeeded(self) -> None:
        """Record a call that was answered."""
        self._failures = 0

    def failed(self) -> None:
        """Record a call that was not answered."""
        self._failures += 1
        if self._failures >= FAILURES:
            self._open_until = monotonic() + OPEN_S
