"""How long a client waits before it tries again (docs/protocol.md#reconnecting)."""

import random
from typing import ClassVar

# The longest wait before each attempt; the last is used for all later ones.
PAUSES_S = (1.0, 2.0, 4.0, 8.0, 10.0, 30.0)
GOING_AWAY_S, TRY_LATER_S = 5.0, 10.0  # the longest waits after these close codes
ANSWER_S = 10.0  # for a socket to open, for its `auth_ok`, and for any frame after `ping`
STABLE_S = 10.0  # a socket that was open this long was a success: the next attempt counts as a first one
GOING_AWAY, TRY_LATER, NOT_AUTHENTICATED, REVOKED, REPLACED = 1012, 1013, 4401, 4403, 4409


def longest_pause(attempt: int) -> float:
    """Return the longest pause in seconds after a failed attempt, 0 for the first one."""
    return PAUSES_S[min(attempt, len(PAUSES_S) - 1)]


class Reconnection:
    """The waits before a lost socket is opened again: random, so that thousands of clients do not return together."""

    # Factor for every wait; tests of outages make it smaller.
    pace: ClassVar[float] = 1.0

    def __init__(self, dice: random.Random | None = None) -> None:
        self._dice = dice or random.Random()
        self._failures = 0

    def wait(self, code: int | None, *, lived_s: float = 0.0, retry_after_s: float | None = None) -> float:
        """Return the seconds to wait after a socket that was authenticated for `lived_s` and closed with `code`.

        `code` is None for a lost connection. `retry_after_s` comes from an upgrade that was refused with 503.
        """
        if lived_s >= STABLE_S * self.pace:
            self._failures = 0
        if retry_after_s is not None:
            return retry_after_s + self._dice.random() * self.pace
        longest = longest_pause(self._failures)
        self._failures += 1
        if code in (GOING_AWAY, TRY_LATER):
            longest = max(GOING_AWAY_S if code == GOING_AWAY else TRY_LATER_S, longest)
        return self._dice.random() * longest * self.pace
