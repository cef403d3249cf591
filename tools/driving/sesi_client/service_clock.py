"""The service's clock as a client sees it: its own clock may be wrong by hours (docs/protocol.md#answers)."""

import datetime as dt
import time
from collections.abc import Callable

# How much the round trip of the best answer counts as longer for each second since then, so that drift is corrected.
DRIFT = 1 / 3600


class ServiceClock:
    """The service's time, from the answer with the shortest round trip and this machine's monotonic clock."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.monotonic = monotonic
        self.scale = 1.0  # service seconds in a real second; more than 1 against a service in development
        self._measured: tuple[dt.datetime, float, float] | None = None  # service time, monotonic time, round trip

    def observe(self, server_time: str, sent_at: float) -> None:
        """Take the service's time from an answer. `sent_at`: when the request was sent, on the monotonic clock."""
        received_at = self.monotonic()
        round_trip = received_at - sent_at
        if self._measured is not None:
            _, at, narrowest = self._measured
            if round_trip > narrowest + (received_at - at) * DRIFT:
                return
        self._measured = (dt.datetime.fromisoformat(server_time), sent_at + round_trip / 2, round_trip)

    def learn_scale(self, scale: float) -> None:
        """Take `time_scale` of an answer."""
        if scale == self.scale:
            return
        if self._measured is not None:
            self._measured = (self.now(), self.monotonic(), self._measured[2])
        self.scale = scale

    def now(self) -> dt.datetime:
        """Return the service's time; before the first answer, this machine's."""
        if self._measured is None:
            return dt.datetime.now(dt.UTC)
        server_time, at, _ = self._measured
        return server_time + dt.timedelta(seconds=(self.monotonic() - at) * self.scale)

    def seconds_until(self, moment: str | None) -> float:
        """Return the service seconds until an ISO 8601 time; 0 for None and for times that are over."""
        if moment is None:
            return 0.0
        return max(0.0, (dt.datetime.fromisoformat(moment) - self.now()).total_seconds())

    def real_seconds_until(self, moment: str | None) -> float:
        """Return the seconds of this machine until an ISO 8601 time; 0 for None and for times that are over."""
        return self.seconds_until(moment) / self.scale
