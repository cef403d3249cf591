"""A clock that a test advances by hand."""

import datetime as dt

from core.base.clock import UTC, Clock


class HandClock(Clock):
    """A clock on which time passes only when the test calls `advance`."""

    def __init__(self, start: dt.datetime) -> None:
        super().__init__(anchor=start, scale=1)
        self._now = start

    @classmethod
    def at(cls, *day: int) -> "HandClock":
        """Return a clock set to the start of a day (year, month, day)."""
        return cls(dt.datetime(*day, tzinfo=UTC))

    def real_now(self) -> dt.datetime:
        """Return the time that the test has set."""
        return self._now

    def now(self) -> dt.datetime:
        """Return the time that the test has set."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self._now += dt.timedelta(seconds=seconds)
