"""A clock that a test moves by hand."""

import datetime as dt

from core.base.clock import UTC, Clock


class HandClock(Clock):
    """Time passes only when the test says so."""

    def __init__(self, start: dt.datetime) -> None:
        super().__init__(anchor=start, scale=1)
        self._now = start

    @classmethod
    def at(cls, *day: int) -> "HandClock":
        """A clock that stands at the beginning of a day (year, month, day)."""
        return cls(dt.datetime(*day, tzinfo=UTC))

    def real_now(self) -> dt.datetime:
        """Return the moment that the test has set."""
        return self._now

    def now(self) -> dt.datetime:
        """Return the moment that the test has set."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += dt.timedelta(seconds=seconds)
