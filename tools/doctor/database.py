"""The checks of the database that the service depends on: reachable, migrated, durable, with partitions and
timeouts."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from core.base.addresses import database_urls
from core.config import rules
from core.config.keys import KEYS
from core.settings.settings import Settings
from core.storage import durability, partitions
from core.storage.pool import Sessions
from core.storage.servers import writable_url
from tools.commands import migrate
from tools.doctor.findings import Finding, failure, ok, or_start, problems_or, warning

OLDEST_VERSION = 15
UNANSWERED = (OSError, TimeoutError, asyncpg.PostgresError)
FEW_MONTHS = 2  # ahead; the jobs process makes three


async def connect(settings: Settings, **options: Any) -> Any:
    """Connect to the server that takes writes. A pooler in between keeps no prepared statements."""
    options.setdefault("statement_cache_size", 0)
    return await asyncpg.connect(await writable_url(settings.database_url), timeout=3, **options)


async def reach(settings: Settings) -> Finding:
    """Check that the database answers and has a version that we support."""
    try:
        connection = await connect(settings)
        version = connection.get_server_version().major
        await connection.close()
    except UNANSWERED as error:
        return failure("database", f"does not answer ({_words(error)}): check DATABASE_URL{or_start(settings)}")
    if version < OLDEST_VERSION:
        return failure("database", f"is PostgreSQL {version}: use {OLDEST_VERSION} or newer")
    return ok("database", f"PostgreSQL {version}")


def _words(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


async def answered(settings: Settings, check: Callable[[Settings], Awaitable[list[Finding]]]) -> list[Finding]:
    """Run a check of the database. If it refuses or no longer answers, the finding has its words."""
    try:
        return await check(settings)
    except UNANSWERED as error:
        return [failure("database", f"refuses ({_words(error)}): see its log, and whether its disk is full")]


async def check(settings: Settings) -> list[Finding]:
    """Check the contents and the behaviour of a database that answers."""
    return [
        await _migrations(settings),
        await _partitions(settings),
        *await check_durability(settings),
        await check_sessions(settings),
        *([await _contacts(settings)] if settings.production else []),
    ]


async def _migrations(settings: Settings) -> Finding:
    missing = await migrate.pending(settings.database_url)
    if missing:
        return failure("migrations", f"{len(missing)} to run: use `sesi migrate`")
    return ok("migrations", "current")


async def _contacts(settings: Settings) -> Finding:
    """Check that customers who need help reach people of the operator. A missing row has its default."""
    key, check = KEYS["support_handles"], "support contacts"
    connection = await connect(settings)
    try:
        stored = await connection.fetchval("SELECT value::text FROM app_config WHERE key = $1", key.name)
    except asyncpg.UndefinedTableError:
        stored = None
    finally:
        await connection.close()
    if rules.has_placeholder(rules.loaded(key, json.loads(stored) if stored else None)):
        return warning(check, "support_handles has placeholders: set it on the page Settings of the control center")
    return ok(check, "support_handles is set")


async def _partitions(settings: Settings) -> Finding:
    """Check that the coming months have partitions, in real time. Without a partition nothing can be stored."""
    connection = await connect(settings)
    try:
        found = await partitions.partitions(connection)
        least = min(partitions.months_ahead(found, await connection.fetchval("SELECT clock_timestamp()")).values())
    finally:
        await connection.close()
    if not found:
        return failure("partitions", "there are none: use `sesi migrate`")
    fix = "use `sesi migrate`, and see why no jobs process made them"
    if least < 1:
        return failure("partitions", f"the next month has none: {fix}")
    if least < FEW_MONTHS:
        return warning("partitions", f"made only {least} month ahead: {fix}")
    return ok("partitions", f"made {least} months ahead")


async def check_durability(settings: Settings) -> list[Finding]:
    """Check that acknowledged data survives a crash of the server and a failover to a standby."""
    connection = await connect(settings)
    try:
        found = await durability.find(connection, several_hosts=len(database_urls(settings.database_url)) > 1)
    finally:
        await connection.close()
    state = "commits wait for a standby" if found.standbys else "commits are on disk; no standby"
    return problems_or(ok("durability", state), failures=found.problems(production=settings.production))


async def check_sessions(settings: Settings) -> Finding:
    """Check that the server applies the timeouts of our sessions, which some poolers drop."""
    fix = "the server ignores or refuses them: does DATABASE_URL lead to a PgBouncer? Set DATABASE_POOLER=transaction"
    sessions = Sessions(through_pooler=settings.through_pooler)
    try:
        connection = await connect(settings, **sessions.options)
    except asyncpg.ProtocolViolationError:
        return failure("timeouts", fix)
    try:
        async with sessions.statements(connection):
            limited = await connection.fetchval("SELECT current_setting('statement_timeout')") != "0"
    finally:
        await connection.close()
    return ok("timeouts", "the server applies them") if limited else failure("timeouts", fix)
