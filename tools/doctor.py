"""`sesi doctor`: checks the database, Redis, migrations, ports, clock and providers, and says how to fix problems."""

import asyncio
import datetime as dt
import resource
import urllib.parse
from typing import Any

import asyncpg

from core.base.addresses import database_urls, host_and_port
from core.base.clock import Clock, monotonic
from core.base.errors import GatewayUnavailable, Unavailable
from core.base.settings import Settings, SettingsError
from core.bus.bus import Bus
from core.providers.gateway import make_gateway
from core.providers.http_client import HttpClient
from core.providers.identity_keys import IdentityProvider, make_identity_providers
from core.providers.push_sender import make_push_sender
from core.storage import durability, partitions
from core.storage.pool import Sessions
from core.storage.servers import writable_url
from tools import environment, migrate, up

SPARE_FILES = 256  # open files of an API process that are not connections of clients

Check = tuple[str, bool, str]


async def examine(settings: Settings) -> list[Check]:
    """Return (name, whether it passed, the finding or the fix) for each check."""
    found = [await _database(settings), await _bus(settings)]
    if found[0][1]:
        found += [
            await _migrations(settings),
            await _partitions(settings),
            await _clock(settings),
            await _durability(settings),
            await _timeouts(settings),
        ]
    found.append(_open_files(settings))
    found += await _ports(settings)
    found.append(await _otp_sender(settings))
    return found + await _providers(settings)


async def _providers(settings: Settings) -> list[Check]:
    """Check the identity providers, the push sender and the gateway."""
    http = HttpClient()
    try:
        providers = make_identity_providers(settings, http)
        found = [await _identity(letter, provider) for letter, provider in providers.items()]
        return [*found, _push_sender(settings, http), await _gateway(settings, http)]
    finally:
        await http.close()


async def _otp_sender(settings: Settings) -> Check:
    """Check that codes can be sent; a sender with a URL must accept a connection."""
    if settings.otp_sender == "log" and settings.production:
        return "OTP sender", False, "log, which hides codes in production: set OTP_SENDER"
    url = {"http": settings.otp_http_url, "twilio_verify": settings.twilio_verify_base_url}.get(settings.otp_sender)
    if url is not None:
        where = urllib.parse.urlsplit(url)
        try:
            async with asyncio.timeout(3):
                _, writer = await asyncio.open_connection(
                    where.hostname, where.port or {"https": 443}.get(where.scheme, 80)
                )
            writer.close()
        except (OSError, TimeoutError) as error:
            variable = "OTP_HTTP_URL" if settings.otp_sender == "http" else "TWILIO_VERIFY_BASE_URL"
            return "OTP sender", False, f"accepts no connection ({type(error).__name__}): check {variable}"
    return "OTP sender", True, settings.otp_sender


def _push_sender(settings: Settings, http: HttpClient) -> Check:
    try:
        make_push_sender(settings, Clock(anchor=dt.datetime.now(dt.UTC), scale=1), http)
    except SettingsError as error:
        return "push sender", False, str(error)
    return "push sender", True, settings.push_sender


async def _gateway(settings: Settings, http: HttpClient) -> Check:
    """Look up an invoice that doesn't exist, to check that the gateway answers and accepts our key."""
    gateway = make_gateway(settings, http)
    if gateway is None:
        if settings.production:
            return (
                "gateway",
                False,
                "disabled, so customers can't pay: set GATEWAY_ENABLED, GATEWAY_BASE_URL, GATEWAY_SECRET_KEY",
            )
        return "gateway", True, "disabled: payments use the development page"
    try:
        await gateway.find("sesi-doctor")
    except GatewayUnavailable:
        return "gateway", False, "does not answer or refuses the key: check GATEWAY_BASE_URL and GATEWAY_SECRET_KEY"
    return "gateway", True, "answers"


async def _identity(letter: str, provider: IdentityProvider) -> Check:
    """Check that the provider's published keys can be read."""
    try:
        await provider.keys.get("any")
    except Unavailable:
        mend = f"its keys can't be read: check IDENTITY_{letter.upper()}_JWKS_URL"
        return f"identity provider {letter.upper()}", False, mend
    return f"identity provider {letter.upper()}", True, "publishes its keys"


async def _connect(settings: Settings, **options: Any) -> Any:
    """Connect to the server that takes writes. A pooler in between keeps no prepared statements."""
    options.setdefault("statement_cache_size", 0)
    return await asyncpg.connect(await writable_url(settings.database_url), timeout=3, **options)


async def _database(settings: Settings) -> Check:
    try:
        connection = await _connect(settings)
        version = connection.get_server_version().major
        await connection.close()
    except (OSError, TimeoutError, asyncpg.PostgresError) as error:
        return (
            "database",
            False,
            f"does not answer ({type(error).__name__}): check DATABASE_URL, or start `sesi up`",
        )
    if version < 15:
        return "database", False, f"is PostgreSQL {version}: use 15 or newer"
    return "database", True, f"PostgreSQL {version}"


async def _bus(settings: Settings) -> Check:
    bus = Bus(settings.redis_url)
    try:
        await bus.nodes.find()
        answers = await bus.ping()
    finally:
        await bus.close()
    if not answers:
        return "Redis", False, "does not answer: check REDIS_URL, or start `sesi up`"
    return "Redis", True, "answers"


async def _migrations(settings: Settings) -> Check:
    missing = await migrate.pending(settings.database_url)
    return (
        ("migrations", False, f"{len(missing)} to run: use `sesi migrate`")
        if missing
        else ("migrations", True, "current")
    )


async def _partitions(settings: Settings) -> Check:
    """Check that the next month has partitions, in real time. Without a partition nothing can be stored."""
    connection = await _connect(settings)
    try:
        found = await partitions.partitions(connection)
        least = min(partitions.months_ahead(found, await connection.fetchval("SELECT clock_timestamp()")).values())
    finally:
        await connection.close()
    if not found:
        return "partitions", False, "there are none: use `sesi migrate`"
    if least < 1:
        return "partitions", False, "the next month has none: use `sesi migrate`, and see why no jobs process made them"
    return "partitions", True, f"made {least} months ahead"


async def _clock(settings: Settings) -> Check:
    connection = await _connect(settings)
    try:
        before = monotonic()
        at = await connection.fetchval("SELECT clock_timestamp()")
        offset = Clock(anchor=at, scale=1).set_real(at, at_monotonic=(before + monotonic()) / 2)
    finally:
        await connection.close()
    well = abs(offset) < 5
    return (
        "clock",
        well,
        f"{offset:+.3f} s from the database's clock" + ("" if well else ": run NTP on both machines"),
    )


async def _durability(settings: Settings) -> Check:
    """Check that acknowledged data survives a crash of the server and a failover to a standby."""
    connection = await _connect(settings)
    try:
        found = await durability.find(connection, several_hosts=len(database_urls(settings.database_url)) > 1)
    finally:
        await connection.close()
    problems = found.problems(production=settings.production)
    state = "commits wait for a standby" if found.standbys else "commits are on disk; no standby"
    return "durability", not problems, "; ".join(problems) or state


async def _timeouts(settings: Settings) -> Check:
    """Check that the server applies the timeouts of our sessions, which some connection poolers drop."""
    mend = "the server ignores or refuses them: does DATABASE_URL lead to a PgBouncer? Set DATABASE_POOLER=transaction"
    sessions = Sessions(through_pooler=settings.through_pooler)
    try:
        connection = await _connect(settings, **sessions.options)
    except asyncpg.ProtocolViolationError:
        return "timeouts", False, mend
    try:
        async with sessions.statements(connection):
            limited = await connection.fetchval("SELECT current_setting('statement_timeout')") != "0"
    finally:
        await connection.close()
    return "timeouts", limited, "the server applies them" if limited else mend


def _open_files(settings: Settings) -> Check:
    """Compare the hard limit of open files, to which processes raise their own, with what an API process needs."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = settings.http_connections + SPARE_FILES
    if most == resource.RLIM_INFINITY or most >= needed:
        return "open files", True, "no limit" if most == resource.RLIM_INFINITY else f"{most} for each process"
    mend = (
        f"{most} for each process, but HTTP_CONNECTIONS needs {needed}: raise the hard limit (ulimit -Hn, LimitNOFILE)"
    )
    return "open files", False, f"{mend}; each socket of the realtime process needs one, too"


async def _ports(settings: Settings) -> list[Check]:
    found: list[Check] = []
    for variable, host, port in environment.ports_of(settings):
        problem = None
        if await up.ready(host, port, "/healthz"):  # /readyz is not needed: the other checks cover what it depends on
            state = "answers"
        else:
            problem, state = environment.why_not(variable, host, port), "is free"
        found.append((variable, problem is None, problem or f"{host_and_port(host, port)} {state}"))
    return found


def run() -> list[Check]:
    """Read the settings and run all checks."""
    try:
        settings = environment.read()
    except SettingsError as error:
        return [("settings", False, str(error))]
    return [("settings", True, settings.environment), *asyncio.run(examine(settings))]
