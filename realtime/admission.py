"""Which sockets may begin: their origin, their address, and whether this process has room for them now.

How this works: a process without room refuses upgrades with 503 and a `Retry-After`; sockets that are upgraded already close with
1013. Neither says anything about a token, so clients keep theirs and do not move the load to the refresh route.
"""

import random
import re
import resource
from collections.abc import Callable

from aiohttp import web

from core.base import http_texts, metrics
from core.base.addresses import TrustedProxies, who_has
from core.base.clock import monotonic, real_sleep
from core.base.settings import Settings
from core.probes import Refusal
from realtime import close_codes
from realtime.connection import Connection

LAG_EVERY_S = 0.1
LAG_S = 2.0  # a loop that comes round this late answers no client in time
LAG_REMEMBERED_S = 1.0  # after the loop has caught up
HANDSHAKES = 2000  # with the database at once; the reads of all are shared, so the last of them waits for some seconds
SPARE_FILES = 100  # for the database, Redis, the probes, and connections that are not upgraded
RETRY_S = (1, 10)  # random, so that refused clients do not return together


ORIGIN = Refusal(status=403, code="FORBIDDEN", message=http_texts.ORIGIN_FORBIDDEN)


class Admission:
    """Counts what one process's sockets take up before their users are known."""

    def __init__(self, settings: Settings, *, overloaded: Callable[[], None]) -> None:
        """`overloaded` is called for each client that is sent away because the process has no room for it."""
        self._overloaded = overloaded
        self._proxies = TrustedProxies(settings.trusted_proxies)
        self._origins = _pattern(settings.public_cors_origins) if settings.public_cors_origins else None
        self._most_unknown = settings.ws_unauthenticated_per_address
        self._unknown: dict[str, dict[Connection, None]] = {}  # by address, the oldest first
        self._handshakes = 0
        self._lagged_at = -LAG_REMEMBERED_S

    async def watch(self) -> None:
        """Measure how late the event loop comes round; until cancelled."""
        while True:
            before = monotonic()
            await real_sleep(LAG_EVERY_S)
            now = monotonic()
            if now - before - LAG_EVERY_S > LAG_S:
                self._lagged_at = now

    @property
    def slow(self) -> bool:
        """Whether the event loop is late, or was a moment ago."""
        return monotonic() - self._lagged_at < LAG_REMEMBERED_S

    def send_away(self, limit: str) -> None:
        """Count a client that is sent away because the process is overloaded, under the name of the limit."""
        self._overloaded()
        metrics.LIMITED.labels(limit).inc()

    def address_of(self, request: web.Request) -> str:
        """Return the client's address as limits count it; a trusted proxy says it for its clients."""
        return who_has(self._proxies.client_of(request.remote or "", request.headers.getall("X-Forwarded-For", ())))

    def refusal_of(self, request: web.Request, transport_file: int) -> Refusal | None:
        """Return why an upgrade is refused; None when the socket may begin."""
        origin = request.headers.get("Origin")
        if origin is not None and self._origins is not None and not self._origins.fullmatch(origin):
            return ORIGIN
        if self.slow:
            return self._busy("socket_lag")
        if self._handshakes >= HANDSHAKES:
            return self._busy("socket_handshakes")
        # The kernel gives each connection the lowest free number: a high one means that all below it are in use.
        if transport_file >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE_FILES:
            return self._busy("socket_files")
        return None

    def _busy(self, limit: str) -> Refusal:
        self.send_away(limit)
        return Refusal(
            status=503,
            code="UNAVAILABLE",
            message=http_texts.BUSY,
            retry_after_seconds=random.randint(*RETRY_S),  # noqa: S311 - it only spreads clients
        )

    def begin(self, connection: Connection) -> None:
        """Count a socket whose user is not known yet; the oldest of its address goes when there are too many."""
        mine = self._unknown.setdefault(connection.address, {})
        mine[connection] = None
        if len(mine) > self._most_unknown:
            oldest = next(iter(mine))
            metrics.LIMITED.labels("sockets_unauthenticated_per_address").inc()
            self.end(oldest)
            oldest.close(close_codes.TRY_LATER)

    def end(self, connection: Connection) -> None:
        """Stop counting a socket: it is authenticated, or gone."""
        mine = self._unknown.get(connection.address)
        if mine is not None:
            mine.pop(connection, None)
            if not mine:
                del self._unknown[connection.address]

    def begin_handshake(self) -> bool:
        """Count an auth frame that is judged from now on; False when too many are."""
        if self._handshakes >= HANDSHAKES:
            self.send_away("socket_handshakes")
            return False
        self._handshakes += 1
        return True

    def end_handshake(self) -> None:
        """Stop counting it."""
        self._handshakes -= 1


def _pattern(origins: tuple[str, ...]) -> re.Pattern[str]:
    """Return what matches the allowed origins; `*` in one stands for anything, as for the public listener."""
    return re.compile("|".join(".*".join(map(re.escape, origin.split("*"))) for origin in origins))
