"""A circuit breaker: a third party that fails again and again is left alone for a while."""

import math

from core.base.clock import monotonic

FAILURES = 5  # in a row; one process's view
# Real seconds. Short, because customers must be able to pay within 5 s after the third party is back.
OPEN_S = 2.0


class Circuit:
    """Closed after a success; open after FAILURES calls in a row without an answer, but for one try every OPEN_S."""

    def __init__(self) -> None:
        self._failures = 0
        self._open_until = 0.0

    def wait_s(self) -> int:
        """Return how long to wait, in whole seconds; 0 while calls are let through."""
        if self._failures < FAILURES:
            return 0
        return max(0, math.ceil(self._open_until - monotonic()))

    def admit(self) -> bool:
        """Let a call through. In an open circuit that is the one try: others wait until it has failed or OPEN_S is over."""
        if self.wait_s():
            return False
        if self._failures >= FAILURES:
            self._open_until = monotonic() + OPEN_S
        return True

    def succeeded(self) -> None:
        """Note that there was an answer."""
        self._failures = 0

    def failed(self) -> None:
        """Note that there was none."""
        self._failures += 1
        if self._failures >= FAILURES:
            self._open_until = monotonic() + OPEN_S
