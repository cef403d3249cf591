"""The checks of the trusted proxies: which addresses the service believes, and which address it sees of this machine.

A client that chooses its own address escapes every limit for an address. A proxy that is not trusted makes all clients
share one limit.
"""

import asyncio
import datetime as dt
import ipaddress
import urllib.parse
from typing import Any

import asyncpg

from core.base import ids
from core.base.addresses import TrustedProxies, unmapped
from core.base.id_ranges import since
from core.settings.plaintext import is_loopback
from core.settings.settings import Settings
from tools.doctor import database, public
from tools.doctor.findings import Finding, failure, ok, problems_or, warning

CHECK = "trusted proxies"
CLAIMED = "192.0.2.7"  # reserved for documentation, so no client has it
FEWEST_BITS = {4: 16, 6: 48}  # of the network part; a wider network has more machines than proxies
SEEN = "SELECT source_ip FROM webhook_logs WHERE id >= $2 AND received_at > $3 AND external_id = $1"
WEBHOOK = "/api/shared/payment/webhooks/gateway"


def networks(settings: Settings) -> list[Finding]:
    """Check TRUSTED_PROXIES alone."""
    warnings, failures = [], []
    for word in settings.trusted_proxies:
        network = ipaddress.ip_network(word, strict=False)
        if network.prefixlen == 0:
            failures.append(
                f"TRUSTED_PROXIES contains {word}, so every client chooses its own address: name the proxies only"
            )
        elif network.prefixlen < FEWEST_BITS[network.version] and not network.is_loopback:
            warnings.append(f"TRUSTED_PROXIES contains {word}, which is wide: name the proxies or their subnet")
    if not is_loopback(settings.public_host) and all(is_loopback(_first(word)) for word in settings.trusted_proxies):
        warnings.append(
            "PUBLIC_HOST is not on loopback, but TRUSTED_PROXIES names no other machine, so all clients of a proxy share "
            "one address and its limits: name the proxy"
        )
    return problems_or(ok(CHECK, ", ".join(settings.trusted_proxies) or "none"), failures=failures, warnings=warnings)


def _first(word: str) -> str:
    return str(ipaddress.ip_network(word, strict=False).network_address)


def _is_public(host: str) -> bool:
    """Return whether a host is an address of the public network; a proxy may have written any text."""
    try:
        return unmapped(host).is_global
    except ValueError:
        return False


async def address_seen(settings: Settings, url: str, *, database_answers: bool) -> list[Finding]:
    """Call the webhook without a token and with a false X-Forwarded-For, and read which address was stored.

    The call is stored as any call without a valid token, and removed after `retention_invalid_webhook_days`.
    """
    if not database_answers:
        return []
    mark = f"sesi-doctor-{ids.new_id()}"
    try:
        own = await _own_address(url)
        async with (
            public.client() as http,
            http.post(
                url.rstrip("/") + WEBHOOK, json={"external_id": mark}, headers={"X-Forwarded-For": CLAIMED}
            ) as answer,
        ):
            status = answer.status
    except public.LOST:
        return []  # the check of the public address reports it
    seen = await _stored(settings, mark) if status == 401 else None
    if seen is None:
        return [
            warning(CHECK, f"the webhook answers {status} and stored no address, which can't be checked: try again")
        ]
    return [judged(settings, seen, own)]


async def _own_address(url: str) -> str:
    """Return the address from which this machine reaches a URL."""
    parts = urllib.parse.urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    async with asyncio.timeout(public.ANSWER_S):
        _, writer = await asyncio.open_connection(parts.hostname, port)
    own = writer.get_extra_info("sockname")[0]
    writer.close()
    return str(unmapped(own.partition("%")[0]))


async def _stored(settings: Settings, mark: str) -> str | None:
    connection: Any = await database.connect(settings)
    now = dt.datetime.now(dt.UTC)
    try:
        return await connection.fetchval(SEEN, mark, since(now), now - dt.timedelta(hours=1))
    except asyncpg.PostgresError:
        return None
    finally:
        await connection.close()


def judged(settings: Settings, seen: str, own: str) -> Finding:
    """Return the finding about the address that the service stored for a call from `own`."""
    if seen == CLAIMED:
        return failure(
            CHECK,
            "the service believed a false X-Forwarded-For of a client: let the proxy replace the header, and name only "
            "proxies in TRUSTED_PROXIES",
        )
    if seen == own:
        return ok(CHECK, f"the service sees this machine as {seen}")
    if TrustedProxies(settings.trusted_proxies).trusts(seen) or not _is_public(seen):
        return warning(
            CHECK,
            f"the service sees this machine as {seen}, which looks like a proxy: name it in TRUSTED_PROXIES, and let it "
            "set X-Forwarded-For",
        )
    return warning(
        CHECK,
        f"the service sees this machine as {seen}, not {own}: expected behind NAT, else name the proxy in TRUSTED_PROXIES",
    )
