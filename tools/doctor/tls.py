"""The checks of encryption towards the database, Redis and the providers (docs/doctor.md#encryption)."""

import urllib.parse

from core.base.addresses import database_urls
from core.settings.environment import HTTP_BACKENDS
from core.settings.plaintext import database_in_plaintext, http_in_plaintext, is_loopback
from core.settings.settings import Settings
from tools.doctor import database
from tools.doctor.findings import Finding, failure, ok, problems_or, warning

VERIFYING = "verify-full"


def check_urls(settings: Settings) -> list[Finding]:
    """Check the URLs of Redis and the providers, and whether the settings allow plain text in production."""
    found = [_redis(settings.redis_url)]
    plain = [name.upper() for name in HTTP_BACKENDS if http_in_plaintext(getattr(settings, name))]
    found += problems_or(
        ok("provider encryption", "all URLs have https, or are on loopback"),
        warnings=[f"{name} is sent unencrypted over the network: use https://" for name in plain],
    )
    if settings.production and settings.allow_plaintext_backends:
        found.append(
            warning(
                "plain text",
                "ALLOW_PLAINTEXT_BACKENDS is true: set it only if the network itself encrypts all traffic",
            )
        )
    return found


def _redis(url: str) -> Finding:
    check = "Redis encryption"
    parts = urllib.parse.urlsplit(url)
    query = {name: values[-1] for name, values in urllib.parse.parse_qs(parts.query).items()}
    if parts.scheme.partition("+")[0] == "rediss":
        if query.get("ssl_cert_reqs", "required") != "required" or query.get("ssl_check_hostname") == "false":
            return warning(check, "the server's certificate is not verified: remove ssl_cert_reqs from REDIS_URL")
        return ok(check, "TLS, verified")
    hosts = [one.rpartition(":")[0] or one for one in parts.netloc.rpartition("@")[2].split(",")]
    if all(is_loopback(host.strip("[]") or "localhost") for host in hosts):
        return ok(check, "loopback")
    return warning(check, "the password and all messages cross the network unencrypted: use rediss:// in REDIS_URL")


async def check_database(settings: Settings) -> list[Finding]:
    """Check what DATABASE_URL and DATABASE_READ_URL ask for, and whether the connection is encrypted."""
    found = [asked("DATABASE_URL", url) for url in database_urls(settings.database_url)[:1]]
    if settings.database_read_url:
        found.append(asked("DATABASE_READ_URL", settings.database_read_url))
    if settings.through_pooler or not database_in_plaintext(settings.database_url):
        return found  # a pooler hides whether we reach it encrypted; sslmode=require and higher refuse plain text
    connection = await database.connect(settings)
    try:
        encrypted = await connection.fetchval("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    finally:
        await connection.close()
    if not encrypted:
        found.append(
            failure("database encryption", "the connection is plain text: set sslmode=verify-full in DATABASE_URL")
        )
    return found


def asked(variable: str, url: str) -> Finding:
    """Return the finding about a URL's sslmode; only `verify-full` proves which server answers."""
    check = "database encryption"
    parts = urllib.parse.urlsplit(url)
    query = urllib.parse.parse_qsl(parts.query)
    mode = dict(query).get("sslmode", "prefer").replace("_", "-")
    if mode == VERIFYING:
        return ok(check, f"{variable}: TLS, verified")
    rest = urllib.parse.urlencode([(name, value) for name, value in query if name != "sslmode"])
    if not database_in_plaintext(parts._replace(query=rest).geturl()):
        return ok(check, f"{variable}: loopback or a socket")
    return warning(
        check,
        f"{variable} has sslmode={mode}, which does not prove that the server is ours: "
        "use sslmode=verify-full with sslrootcert",
    )
