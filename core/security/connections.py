"""Limits of HTTP/1.1 connections, the same for every client-facing listener (docs/security.md#limits)."""

import resource
from collections import Counter

from core.base.addresses import TrustedProxies, who_has
from core.settings.settings import Settings
from core.telemetry import metrics

# From the connection, or from the first byte of a later request, to the end of the headers; all times are real seconds.
HEADERS_S = 10.0
MAX_HEAD = 65_536  # bytes of a request line and its headers
MAX_FIELDS = 100
LINGER_S = 1.0  # after a refusal: closing at once could discard the answer while the client is still sending
WRITE_S = 20.0  # how long 64 KiB of answers may wait for a client that does not read
BACKLOG = (
    4096  # connections waiting to be accepted, Linux's maximum; a SYN without room is repeated after 1 s, then 3 s
)
SPARE_FILES = 256  # file descriptors reserved for everything but client connections
LEAST_INSIDE = 32  # connections of the internal listener, of the reserved ones if there are no others
ALL, ONE_ADDRESS = "http_connections", "http_connections_per_address"  # the limits that `add` may return


class ConnectionCounts:
    """Counts the HTTP connections of a listener, in total and per peer. Trusted proxies have no limit per peer."""

    def __init__(self, settings: Settings, *, inside: bool = False) -> None:
        """`inside`: of the internal listener. It has other connections, a tenth as many, so that its probes are answered
        however many clients the public one has."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        room = files - SPARE_FILES if files != resource.RLIM_INFINITY else 2 * settings.http_connections
        most = max(1, min(settings.http_connections, room))
        self._most = max(LEAST_INSIDE, min(most // 10, room - most)) if inside else most
        self._most_of_one = settings.http_connections_per_address
        self._proxies = TrustedProxies(settings.trusted_proxies)
        self._open = 0
        self._of: Counter[str] = Counter()

    def add(self, host: str) -> str | None:
        """Count a new connection; `host` is empty for a Unix socket of this machine.

        Return the limit that it exceeds, ALL or ONE_ADDRESS, else None. Call `remove` in both cases.
        """
        self._open += 1
        network = who_has(host)
        self._of[network] += 1
        if self._open > self._most:
            metrics.LIMITED.labels(ALL).inc()
            return ALL
        if self._of[network] > self._most_of_one and host and not self._proxies.trusts(host):
            metrics.LIMITED.labels(ONE_ADDRESS).inc()
            return ONE_ADDRESS
        return None

    def remove(self, host: str) -> None:
        """Stop counting a connection that has closed or become a WebSocket."""
        self._open -= 1
        network = who_has(host)
        self._of[network] -= 1
        if self._of[network] <= 0:
            del self._of[network]
