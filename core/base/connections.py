"""Bounds of HTTP/1.1 connections, the same for every listener that faces clients: their times, sizes and number."""

import resource
from collections import Counter

from core.base import metrics
from core.base.addresses import TrustedProxies, who_has
from core.base.settings import Settings

HEADERS_S = (
    10.0  # real, as all here: from the connection, or the first byte of a later request, to the end of the headers
)
KEEP_ALIVE_S = 75
MAX_HEAD = 65_536  # bytes of a request line and its headers
MAX_FIELDS = 100
LINGER_S = 1.0  # after a refusal, because closing at once would take the answer away from a client that still sends
WRITE_S = 20.0  # for a client to read on once 64 KiB of answers wait for it
BACKLOG = 4096  # that wait to be accepted, as Linux allows; a SYN without room is repeated after 1 s, then 3 s
SPARE_FILES = 256  # descriptors that are not connections of clients
ALL, ONE_ADDRESS = "http_connections", "http_connections_per_address"  # the limits that `add` may report


class Connections:
    """Counts the HTTP connections of a process, in all and for each peer that is not a trusted proxy."""

    def __init__(self, settings: Settings) -> None:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        room = files - SPARE_FILES if files != resource.RLIM_INFINITY else settings.http_connections
        self._most = max(1, min(settings.http_connections, room))
        self._most_of_one = settings.http_connections_per_address
        self._proxies = TrustedProxies(settings.trusted_proxies)
        self._open = 0
        self._of: Counter[str] = Counter()

    def add(self, host: str) -> str | None:
        """Count a new connection; `host` is empty for a Unix socket of this machine.

        Returns the limit, ALL or ONE_ADDRESS, when it is one too many; it must be removed all the same.
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
        """Stop counting a connection: it has closed, or has become a WebSocket."""
        self._open -= 1
        network = who_has(host)
        self._of[network] -= 1
        if self._of[network] <= 0:
            del self._of[network]
