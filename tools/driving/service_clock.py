"""The service's clock as a client sees it: its own clock may be wrong by hours (docs/protocol.md#answers)."""

import datetime as dt
import time
from collections.abc import Callable

WIDEN_S = (
    1.0  # a round trip counts as one second longer for each hour since it was measured, so that drift is corrected
)
HOUR_S = 3600.0


class ServiceClock:
    """The service's time, from the answer with the shortest round trip and this machine's monotonic clock."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic, scale: float = 1.0) -> None:
        """`scale`: service seconds in a real second (`SESI_TIME_SCALE`)."""
        self._monotonic = monotonic
        self._scale = scale
        self._measured: tuple[dt.datetime, float, float] | None = None  # service time, monotonic time, round trip

    def observe(self, server_time: str, sent_at: float) -> None:
        """Take the `X-Server-Time` of an answer. `sent_at`: when the request was sent, on the monotonic clock."""
        received_at = self._monotonic()
        round_trip = received_at - sent_at
        if self._measured is not None:
            _, at, narrowest = self._measured
            if round_trip > narrowest + (received_at - at) / HOUR_S * WIDEN_S:
                return
        self._measured = (dt.datetime.fromisoformat(server_time), sent_at + round_trip / 2, round_trip)

    def now(self) -> dt.datetime:
        """Return the service's time; before the first answer, this machine's."""
        if self._measured is None:
            return dt.datetime.now(dt.UTC)
        server_time, at, _ = self._measured
        return server_time + dt.timedelta(seconds=(self._monotonic() - at) * self._scale)

    def seconds_until(self, moment: str) -> float:
        """Return the service seconds until an ISO 8601 time; 0 if it is over."""
        return max(0.0, (dt.datetime.fromisoformat(moment) - self.now()).total_seconds())
