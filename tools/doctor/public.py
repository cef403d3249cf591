"""The checks of the public address: certificate, answers, paths that must not be public, and the clock of the proxy.

The trusted authorities are those of the system, or of the file in SSL_CERT_FILE.
"""

import asyncio
import datetime as dt
import email.utils
import ssl
import urllib.parse

import aiohttp

from core.security.exposure import HttpsRequired
from core.settings.plaintext import is_loopback
from tools.doctor import clocks
from tools.doctor.findings import Finding, failure, ok, problems_or, warning

CHECK = "public address"
ANSWER_S = 5.0
FEW_DAYS = 21  # certificates of ACME are renewed with a third of 90 days left
INSIDE = ("/internal/config", "/metrics", "/readyz")  # of the internal listener
LOST = (aiohttp.ClientError, OSError, TimeoutError)


def client() -> aiohttp.ClientSession:
    """Return a client that waits at most ANSWER_S."""
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context())  # aiohttp's own is made when it is imported
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=ANSWER_S))


async def check(url: str) -> list[Finding]:
    """Check the address at which apps reach the service."""
    base = url.rstrip("/")
    parts = urllib.parse.urlsplit(base)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return [failure(CHECK, f"expected https://host, got {url!r}")]
    found = [
        await _certificate(parts.hostname, parts.port or 443) if parts.scheme == "https" else _plain(parts.hostname)
    ]
    async with client() as http:
        try:
            async with http.get(f"{base}/healthz", allow_redirects=False) as answer:
                status, date = answer.status, answer.headers.get("Date")
        except LOST as error:
            return [*found, failure(CHECK, f"{base} does not answer ({type(error).__name__}): check the proxy and DNS")]
        found.append(_health(base, status))
        found += _clock(date)
        found += [*await _scheme(http, base), *await _inside(http, base)]
    return found


def _plain(host: str) -> Finding:
    if is_loopback(host):
        return ok("certificate", "none: the address is on loopback")
    return failure("certificate", "the public address has no TLS: end TLS at the proxy and use https://")


async def _certificate(host: str, port: int) -> Finding:
    """Check that the chain leads to a trusted authority, that the name fits, and how long it is valid."""
    check = "certificate"
    try:
        async with asyncio.timeout(ANSWER_S):
            _, writer = await asyncio.open_connection(host, port, ssl=ssl.create_default_context())
    except ssl.SSLCertVerificationError as error:
        return failure(check, f"not valid ({error.verify_message}): install one for {host}, with its whole chain")
    except (OSError, TimeoutError) as error:
        return failure(check, f"{host}:{port} makes no TLS connection ({type(error).__name__}): check the proxy")
    certificate = writer.get_extra_info("peercert")
    writer.close()
    ends = dt.datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), dt.UTC)
    days = (ends - dt.datetime.now(dt.UTC)).days
    if days < FEW_DAYS:
        return warning(check, f"ends in {days} days, on {ends:%Y-%m-%d}: renew it, and see why that is not automatic")
    return ok(check, f"valid until {ends:%Y-%m-%d}, for {days} days")


def _health(base: str, status: int) -> Finding:
    if status == 200:
        return ok(CHECK, f"{base} answers")
    return failure(
        CHECK, f"{base}/healthz answers {status}: let the proxy lead /healthz and /api/ to the api processes"
    )


async def _scheme(http: aiohttp.ClientSession, base: str) -> list[Finding]:
    """Check that the proxy says that requests come by TLS. `/healthz` does not need that."""
    try:
        async with http.get(f"{base}/api/doctor", allow_redirects=False) as answer:
            refused = answer.status == 403 and HttpsRequired.code in await answer.text()
    except LOST:
        return []
    what = f"{base}/api/ answers {HttpsRequired.code}: let the proxy pass on the X-Forwarded-Proto of the outermost TLS"
    return [failure(CHECK, what)] if refused and base.startswith("https:") else []


def _clock(date: str | None) -> list[Finding]:
    """Compare the Date header, which has whole seconds, with this machine's clock."""
    if date is None:
        return []
    told = email.utils.parsedate_to_datetime(date)
    offset = (told - dt.datetime.now(dt.UTC)).total_seconds()
    return [clocks.judged(CHECK, offset if offset > 0 else min(0.0, offset + 1))]


async def _inside(http: aiohttp.ClientSession, base: str) -> list[Finding]:
    """Check that the proxy does not publish the internal listener."""
    failures = []
    for path in INSIDE:
        try:
            async with http.get(f"{base}{path}", allow_redirects=False) as answer:
                if answer.status not in (403, 404):
                    failures.append(
                        f"{path} answers {answer.status}: lead only the paths of deploy/nginx.conf to the service"
                    )
        except LOST:
            continue  # a proxy may close the connection instead of an answer
    return problems_or(ok("internal listener", "not public"), failures=failures)
