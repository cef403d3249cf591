"""Admission of new sockets: by origin, by address, and by the load of this process.

An overloaded process refuses upgrades with 503 and `Retry-After`, and closes sockets that are already upgraded but not
yet authenticated with 1013. Neither rejects the token, so clients keep it instead of moving the load to the refresh
route. docs/security.md#limits lists the limits.
"""

import random
import re
import resource
from collections.abc import Callable

from core.app.probes import HttpRefusal
from core.base import http_texts
from core.base.addresses import TrustedProxies, who_has
from core.base.clock import monotonic, real_sleep
from core.base.errors import Unavailable
from core.settings.settings import Settings
from core.telemetry import metrics
from realtime import close_codes
from realtime.connection import Connection
from realtime.websocket import Headers

LAG_EVERY_S = 0.1
LAG_S = 2.0  # an event loop this late answers no client in time
LAG_REMEMBERED_S = 1.0  # how long the process still counts as slow after its last lag
HANDSHAKES = 2000  # at the same time; their reads are batched, so the last of them waits some seconds
SPARE_FILES = 100  # for the database, Redis, the probes, and connections that are not upgraded
RETRY_S = (1, 10)  # bounds of a random Retry-After in seconds, so that refused clients do not return together
PLACE = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s/?#@:\[\]]+)(?::(?P<port>[0-9]*))?")
DEFAULT_PORTS = frozenset({"80", "443"})

ORIGIN = HttpRefusal(status=403, code="FORBIDDEN", message=http_texts.ORIGIN_FORBIDDEN)


class SocketAdmission:
    """Admit or refuse new sockets, and count those whose user is not known yet."""

    def __init__(self, settings: Settings, *, overloaded: Callable[[], None]) -> None:
        """`overloaded` is called for each client that is refused because of load."""
        self._overloaded = overloaded
        self._proxies = TrustedProxies(settings.trusted_proxies)
        self._origins = _pattern(settings.public_cors_origins) if settings.public_cors_origins else None
        self._most_unknown = settings.ws_unauthenticated_per_address
        self._unknown: dict[str, dict[Connection, None]] = {}  # by address, oldest first
        self._handshakes = 0
        self._lagged_at = -LAG_REMEMBERED_S

    async def watch(self) -> None:
        """Measure the lag of the event loop until cancelled."""
        while True:
            before = monotonic()
            await real_sleep(LAG_EVERY_S)
            now = monotonic()
            if now - before - LAG_EVERY_S > LAG_S:
                self._lagged_at = now

    @property
    def slow(self) -> bool:
        """Return whether the event loop lags, or did within the last LAG_REMEMBERED_S seconds."""
        return monotonic() - self._lagged_at < LAG_REMEMBERED_S

    def count_refused(self, limit: str) -> None:
        """Count a client that is refused because of load, under the name of the limit that refused it."""
        self._overloaded()
        metrics.LIMITED.labels(limit).inc()

    def address_of(self, host: str, headers: Headers) -> str:
        """Return the client's address as limits count it; a trusted proxy, the peer `host`, names it in
        `X-Forwarded-For`."""
        return who_has(self._proxies.client_of(host, headers.getall("X-Forwarded-For", ())))

    def refusal_of(self, headers: Headers, transport_file: int) -> HttpRefusal | None:
        """Return why an upgrade is refused, or None if it is admitted."""
        if not self._admits_origin(headers.get("Origin"), headers.get("Host")):
            return ORIGIN
        if self.slow:
            return self._busy("socket_lag")
        if self._handshakes >= HANDSHAKES:
            return self._busy("socket_handshakes")
        # The kernel gives out the lowest free descriptor, so a high number means that all lower ones are in use.
        if transport_file >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE_FILES:
            return self._busy("socket_files")
        return None

    def _admits_origin(self, origin: str | None, host: str | None) -> bool:
        """Return whether pages of an origin may open sockets: one of the list, or one with the service's own host.

        The list is for web pages. React Native sends the socket's own address as `Origin`.
        """
        if origin is None or self._origins is None or self._origins.fullmatch(origin):
            return True
        return is_own_host(origin, host or "")

    def _busy(self, limit: str) -> HttpRefusal:
        self.count_refused(limit)
        return HttpRefusal(
            status=503,
            code=Unavailable.code,
            message=http_texts.BUSY,
            retry_after_seconds=random.randint(*RETRY_S),  # noqa: S311 - not a secret
        )

    def begin(self, connection: Connection) -> None:
        """Count a socket whose user is not known yet; beyond the limit, close the oldest one of its address."""
        mine = self._unknown.setdefault(connection.address, {})
        mine[connection] = None
        if len(mine) > self._most_unknown:
            oldest = next(iter(mine))
            metrics.LIMITED.labels("sockets_unauthenticated_per_address").inc()
            self.end(oldest)
            oldest.close(close_codes.TRY_LATER)

    def end(self, connection: Connection) -> None:
        """Stop counting a socket that has authenticated or closed."""
        mine = self._unknown.get(connection.address)
        if mine is not None:
            mine.pop(connection, None)
            if not mine:
                del self._unknown[connection.address]

    def close_unknown(self, code: int) -> None:
        """Close the sockets whose user is not known yet."""
        for connection in [connection for mine in self._unknown.values() for connection in mine]:
            connection.close(code)

    def begin_handshake(self) -> bool:
        """Count the start of a handshake. Return False if too many are under way."""
        if self._handshakes >= HANDSHAKES:
            self.count_refused("socket_handshakes")
            return False
        self._handshakes += 1
        return True

    def end_handshake(self) -> None:
        """Count the end of a handshake."""
        self._handshakes -= 1


def is_own_host(origin: str, host: str) -> bool:
    """Return whether an `Origin` names the host and port of the `Host` header.

    The scheme is ignored, because a proxy ends TLS; so are the ports 80 and 443.
    """
    scheme, separator, named = origin.lower().partition("://")
    place = PLACE.fullmatch(named)
    own = PLACE.fullmatch(host.lower())
    if not scheme or not separator or place is None or own is None:
        return False
    return place["name"] == own["name"] and _port(place) == _port(own)


def _port(place: re.Match[str]) -> str:
    port = (place["port"] or "").lstrip("0")
    return "" if port in DEFAULT_PORTS else port


def _pattern(origins: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern of the allowed origins; `*` matches any text, as on the public listener."""
    return re.compile("|".join(".*".join(map(re.escape, origin.split("*"))) for origin in origins))
