"""The one reader of the system's clock.

How this works: *real time* is this process's monotonic clock, set to the database's clock when the process starts and
again each minute, so that all processes agree and a jump of the machine's wall clock changes nothing. *Service time*
is `anchor + (real - anchor) * scale`: with a scale of 60 a minute of the product passes each second (contract 1,
`SESI_TIME_SCALE`). Everything that a user would call a duration is service time; time-outs of connections are real.
"""

import asyncio
import datetime as dt
import time

UTC = dt.UTC


class Clock:
    """Service time and real time, and waiting in either."""

    def __init__(self, *, anchor: dt.datetime, scale: float) -> None:
        self.anchor = anchor
        self.scale = scale
        self._base = time.time() - time.monotonic()

    def set_real(self, real: dt.datetime, *, at_monotonic: float) -> float:
        """Take over the database's clock as read at `at_monotonic`; return by how many seconds ours was off."""
        base = real.timestamp() - at_monotonic
        moved = base - self._base
        self._base = base
        return moved

    def real_now(self) -> dt.datetime:
        """Return the real time, aware, UTC."""
        return dt.datetime.fromtimestamp(self._base + time.monotonic(), UTC)

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
