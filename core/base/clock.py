"""The one reader of the system's clock.

How this works: *real time* is this process's monotonic clock, set to the database's clock when the process starts, again
each minute and after a failover, so that all processes agree and a jump of the machine's wall clock changes nothing. After
the first setting a difference of up to a second is slewed: real time runs a little faster or slower until it is made up,
and never goes backwards. A larger difference is a step, because deadlines must not wait for hours. *Service time*
is `anchor + (real - anchor) * scale`: with a scale of 60 a minute of the product passes each second (contract 1,
`SESI_TIME_SCALE`). Everything that a user would call a duration is service time; time-outs of connections are real.
"""

import asyncio
import datetime as dt
import time

UTC = dt.UTC
SLEW_S = 1.0  # the largest difference that is slewed, in real seconds
SLEW_RATE = 0.1  # seconds of correction in a second: the largest difference is made up in ten


class Clock:
    """Service time and real time, and waiting in either."""

    def __init__(self, *, anchor: dt.datetime, scale: float) -> None:
        self.anchor = anchor
        self.scale = scale
        self._base = time.time() - time.monotonic()
        self._left = 0.0  # seconds of correction that were left at `_slewed_at`
        self._slewed_at = time.monotonic()
        self._is_set = False

    def set_real(self, real: dt.datetime, *, at_monotonic: float) -> float:
        """Take over the database's clock as read at `at_monotonic`; return by how many real seconds this one was behind."""
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
        if self.scale == 1:
            return self.real_now()
        return self.anchor + (self.real_now() - self.anchor) * self.scale

    def real_seconds_until(self, moment: dt.datetime) -> float:
        """Return how many real seconds remain until a moment of service time; negative when it has passed."""
        return (moment - self.now()).total_seconds() / self.scale

    async def sleep(self, service_seconds: float) -> None:
        """Wait so many seconds of service time."""
        await asyncio.sleep(max(0.0, service_seconds / self.scale))


def monotonic() -> float:
    """Return seconds that only go forward, for measuring."""
    return time.monotonic()


async def real_sleep(seconds: float) -> None:
    """Wait so many real seconds: back-offs, ticks, nothing that a user would call a duration."""
    await asyncio.sleep(seconds)


def as_text(at: dt.datetime) -> str:
    """Return a moment as the wire spells it: ISO 8601, UTC, with Z (contract 1)."""
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")
