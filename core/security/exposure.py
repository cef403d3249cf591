"""Refuse requests that come from where the deployment must not be reached: a development service from another machine,
and production without TLS (docs/security.md#exposure)."""

from collections.abc import Iterable, Iterator

from core.base.addresses import without_port
from core.base.clock import monotonic
from core.base.errors import DomainError, Kind
from core.base.languages import Text
from core.settings.plaintext import is_loopback
from core.settings.settings import Settings
from core.telemetry import logs

LOG_EVERY_S = 60.0  # one line in this time, whatever others send
UNENCRYPTED = frozenset({"http", "ws"})
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})  # monitors ask by any host and without TLS; they have no secret

log = logs.get("exposure")


class ExposedDevelopment(DomainError):
    """A request of another machine reached a service that has development secrets or routes."""

    kind = Kind.FORBIDDEN
    code = "EXPOSED_DEVELOPMENT"
    message = Text(
        en="This development service only serves its own machine. Its administrator must set ENVIRONMENT=production, "
        "or ALLOW_EXPOSED_DEVELOPMENT=true to allow this.",
        id="Layanan pengembangan ini hanya melayani mesinnya sendiri. Pengelolanya harus menyetel "
        "ENVIRONMENT=production, atau ALLOW_EXPOSED_DEVELOPMENT=true untuk mengizinkannya.",
    )
    advice = "This is a mistake in the deployment. To use a development service from a phone, allow it there."


class HttpsRequired(DomainError):
    """A request reached the proxy of a production service unencrypted."""

    kind = Kind.FORBIDDEN
    code = "HTTPS_REQUIRED"
    message = Text(en="Use https:// or wss://.", id="Gunakan https:// atau wss://.")
    advice = "Use https:// or wss://. The token has crossed the network unencrypted: refresh it over TLS."


class ExposureCheck:
    """The check of each request of a process, before anything else is done with it."""

    def __init__(self, settings: Settings) -> None:
        self._local_only = not settings.production and not settings.allow_exposed_development
        self._https_only = settings.production
        self._logged_at = -LOG_EVERY_S

    def refusal_of(
        self, *, path: str, client: str, forwarded: Iterable[str], host: str | None, scheme: str | None
    ) -> type[DomainError] | None:
        """Return why a request is refused, or None; probes never are.

        `client` is the peer or the client that a proxy named; empty for a Unix socket. `forwarded`, `host` and `scheme`
        are the lines of X-Forwarded-For, Host and X-Forwarded-Proto. They need no trust: a forged one only refuses the
        client's own request.
        """
        if path in PROBES:
            return None
        if self._https_only:
            first = (scheme or "").partition(",")[0].strip().lower()
            return HttpsRequired if first in UNENCRYPTED else None
        if not self._local_only:
            return None
        elsewhere = next(_elsewhere(client, forwarded, host), None)
        if elsewhere is None:
            return None
        self._log(elsewhere)
        return ExposedDevelopment

    def _log(self, elsewhere: str) -> None:
        now = monotonic()
        if now - self._logged_at >= LOG_EVERY_S:
            self._logged_at = now
            log.warning(
                "refused a request from elsewhere, because this is a development service: set ENVIRONMENT=production, "
                "or ALLOW_EXPOSED_DEVELOPMENT=true",
                elsewhere=elsewhere[:100],
            )


def _elsewhere(client: str, forwarded: Iterable[str], host: str | None) -> Iterator[str]:
    """Yield each host that a request names and that is not this machine. Names below `localhost` are."""
    named = [client, host or "", *(word for line in forwarded for word in line.split(","))]
    for word in named:
        name = without_port(word.strip()).lower().removesuffix(".")
        if name and not is_loopback(name) and not name.endswith(".localhost"):
            yield word.strip()
