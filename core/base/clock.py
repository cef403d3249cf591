"""The only module that reads the system's clock.

*Real time* is this process's monotonic clock, set to the database's clock when the process starts, every minute and
after a failover. So all processes agree, and a jump of the machine's wall clock changes nothing. After the first
setting a difference of up to SLEW_S is slewed: real time runs a little faster or slower until the difference is gone,
and never goes backwards. A larger difference is corrected in one step, because deadlines must not wait for hours.

*Service time* is `anchor + (real - anchor) * scale`: with SESI_TIME_SCALE=60 a minute of the product passes each
second. Every duration that a user would name is service time; timeouts of connections are real time.
See docs/architecture.md#time.
"""

import asyncio
import datetime as dt
import time

UTC = dt.UTC
EARLIEST, LATEST = dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(9999, 12, 31, tzinfo=UTC)
SLEW_S = 1.0  # the largest difference that is slewed, in real seconds
SLEW_RATE = 0.1  # seconds of correction per second: the largest slewed difference takes ten seconds


class Clock:
    """Service time and real time, and sleeping in service time."""

    def __init__(self, *, anchor: dt.datetime, scale: float) -> None:
        self.anchor = anchor
        self.scale = scale
        self._base = time.time() - time.monotonic()
        self._left = 0.0  # seconds of correction still to make at `_slewed_at`
        self._slewed_at = time.monotonic()
        self._is_set = False

    def set_real(self, real: dt.datetime, *, at_monotonic: float) -> float:
        """Set real time to `real`, the database's clock as read at `at_monotonic`.

        Return by how many real seconds this clock was behind; negative if it was ahead.
        """
        behind = real.timestamp() - self._seconds(at_monotonic)
        now = time.monotonic()
        self._base = self._seconds(now) - now
        self._left, self._slewed_at = behind, now
        if not self._is_set or abs(behind) > SLEW_S:
            self._base, self._left = self._base + behind, 0.0
        self._is_set = True
        return behind

    def _seconds(self, at_monotonic: float) -> float:
        """Return the real time at a moment of the monotonic clock, in seconds since 1970."""
        most = max(0.0, at_monotonic - self._slewed_at) * SLEW_RATE
        return self._base + at_monotonic + max(-most, min(most, self._left))

    def real_now(self) -> dt.datetime:
        """Return the real time, aware, UTC."""
        return dt.datetime.fromtimestamp(self._seconds(time.monotonic()), UTC)

    def real_microseconds(self) -> int:
        """Return the real time in microseconds since 1970."""
        return int(self._seconds(time.monotonic()) * 1_000_000)

    def now(self) -> dt.datetime:
        """Return the service time, aware, UTC."""
        return self.service_time(self.real_now())

    def service_time(self, real: dt.datetime) -> dt.datetime:
        """Return the service time of a moment of real time."""
        return real if self.scale == 1 else self.anchor + (real - self.anchor) * self.scale

    def real_time(self, moment: dt.datetime) -> dt.datetime:
        """Return the real time of a moment of service time, within the years 1 to 9999."""
        if self.scale == 1:
            return moment
        try:
            return self.anchor + (moment - self.anchor) / self.scale
        except OverflowError:
            return LATEST if moment > self.anchor else EARLIEST

    def real_seconds_until(self, moment: dt.datetime) -> float:
        """Return how many real seconds remain until a moment of service time; negative when it has passed."""
        return (moment - self.now()).total_seconds() / self.scale


def machine_started_at() -> float:
    """Return when this machine started, in seconds since 1970 by its own clock."""
    return time.time() - time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def monotonic() -> float:
    """Return the monotonic clock in real seconds, for measuring."""
    return time.monotonic()


async def real_sleep(seconds: float) -> None:
    """Sleep for a number of real seconds: for backoffs and ticks, never for a duration that a user would name."""
    await asyncio.sleep(seconds)


def as_text(at: dt.datetime) -> str:
    """Return a moment as clients read it: ISO 8601 in UTC with microseconds and Z."""
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")
