"""The checks of PostgreSQL's own settings: connections, autovacuum, isolation, archiving, checksums, roles, disk."""

import collections
import pathlib
import shutil
from collections.abc import Mapping
from typing import Any

from core.base.addresses import database_urls
from core.base.clock import as_text
from core.settings.settings import Settings
from tools.doctor import database
from tools.doctor.findings import Finding, failure, ok, problems_or, warning

FIND = """SELECT
  current_setting('autovacuum') = 'on' AND current_setting('track_counts') = 'on' AS has_autovacuum,
  current_setting('default_transaction_isolation') AS isolation,
  current_setting('server_encoding') AS encoding,
  current_setting('wal_level') AS wal_level,
  current_setting('archive_mode') AS archive_mode,
  -- null without the right to see both
  (SELECT CASE WHEN count(*) = 2 THEN string_agg(setting, '') END
    FROM pg_settings WHERE name IN ('archive_command', 'archive_library')) AS archiver,
  w.last_archived_time AS archived_at,
  w.last_failed_time AS failed_at,
  w.stats_reset AS watched_since,
  current_setting('data_checksums') = 'on' AS has_checksums,
  r.rolsuper AS is_superuser,
  coalesce(pg_has_role(c.relowner, 'USAGE'), false) AS is_owner,
  (SELECT setting FROM pg_settings WHERE name = 'data_directory') AS data_directory,
  least(
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
      - coalesce(current_setting('reserved_connections', true)::int, 0),
    nullif(r.rolconnlimit, -1),
    nullif(d.datconnlimit, -1)
  ) AS connections
FROM pg_roles AS r
CROSS JOIN pg_stat_archiver AS w
JOIN pg_database AS d ON d.datname = current_database()
LEFT JOIN pg_class AS c ON c.oid = to_regclass('chat_sessions')
WHERE r.rolname = current_user"""
# Leases that were valid when a process last renewed one.
PROCESSES = """SELECT kind, place, to_jsonb(p) ->> 'pid' AS pid
FROM service_processes AS p
WHERE lost_at > (SELECT max(alive_at) FROM service_processes)
ORDER BY place"""
LEAST_FREE = 0.1  # of the disk


async def check(settings: Settings) -> list[Finding]:
    """Check the settings of a server that answers."""
    connection = await database.connect(settings)
    try:
        server = dict(await connection.fetchrow(FIND))
        known = await connection.fetchval("SELECT to_regclass('service_processes') IS NOT NULL")
        running = await connection.fetch(PROCESSES) if known else []
    finally:
        await connection.close()
    found = [
        *_behaviour(server),
        _processes(running),
        _connections(settings, collections.Counter(row["kind"] for row in running), server["connections"]),
        _disk(server["data_directory"]),
    ]
    return [*found, *_archiving(server), *_role(server)] if settings.production else found


def _behaviour(server: dict[str, Any]) -> list[Finding]:
    """Check what the service's statements and its tables rely on."""
    failures = []
    if not server["has_autovacuum"]:
        failures.append("dead rows are never removed: set autovacuum = on and track_counts = on")
    if server["isolation"] != "read committed":
        failures.append(
            f"transactions are {server['isolation']}, so guarded statements fail: set default_transaction_isolation to "
            "read committed, also for the role and the database"
        )
    if server["encoding"] != "UTF8":
        failures.append(f"its encoding is {server['encoding']}: create the database with ENCODING 'UTF8'")
    return problems_or(ok("PostgreSQL settings", "autovacuum, isolation and encoding"), failures=failures)


def pool_of(settings: Settings, kind: str) -> int:
    """Return how many connections a process opens at most to the primary (docs/operating.md)."""
    from api import server as api
    from jobs import server as jobs
    from realtime import server as realtime

    size = settings.database_pool_size or {"api": api, "realtime": realtime, "jobs": jobs}[kind].POOL_SIZE
    hosts = len(database_urls(settings.database_url))
    return size + 1 + (hosts if hosts > 1 else 0) + (kind == "api" and settings.database_read_url != "")


def _processes(running: list[Any]) -> Finding:
    """Name the processes with a lease: kind, machine, address and process id."""
    named = ", ".join(f"{row['place']} (process {row['pid']})" for row in running)
    return ok("processes", named or "none has a lease")


def _connections(settings: Settings, running: Mapping[str, int], available: int) -> Finding:
    """Compare the pools of the running processes, at least one of each kind, with what the server admits."""
    check = "database connections"
    if settings.through_pooler:
        return ok(check, "a pooler shares them")
    pools = {kind: pool_of(settings, kind) for kind in ("api", "realtime", "jobs")}
    numbers = {kind: running.get(kind) or 1 for kind in pools}
    needed = sum(pools[kind] * numbers[kind] for kind in pools)
    counted = ", ".join(f"{number} {kind}" for kind, number in numbers.items())
    fix = "raise max_connections, or lower DATABASE_POOL_SIZE"
    if needed > available:
        return failure(check, f"the processes ({counted}) open up to {needed} of {available}: {fix}")
    if needed + max(pools.values()) > available:
        return warning(check, f"a rolling deploy opens more than {available}, which the server admits: {fix}")
    return ok(check, f"the processes ({counted}) open up to {needed} of {available}")


def _archiving(server: dict[str, Any]) -> list[Finding]:
    """Check what a restore to a point in time and the detection of damaged pages need."""
    warnings = []
    if server["wal_level"] == "minimal":
        warnings.append("wal_level is minimal, so neither archiving nor a standby works: set wal_level = replica")
    if (unarchived := _unarchived(server)) is not None:
        warnings.append(unarchived)
    if not server["has_checksums"]:
        warnings.append("damaged pages go unnoticed: stop the server and run pg_checksums --enable")
    return problems_or(ok("archiving", "the log is archived, and pages have checksums"), warnings=warnings)


def _unarchived(server: dict[str, Any]) -> str | None:
    """Return why the server's log may not be archived; None if the last try succeeded."""
    archived_at, failed_at = server["archived_at"], server["failed_at"]
    if server["archive_mode"] == "off":
        return "the log is not archived, so no restore to a point in time is possible: set archive_mode = on"
    if server["archiver"] == "":
        return "archive_command and archive_library are empty, so the log only grows: set archive_command"
    if failed_at is not None and (archived_at is None or failed_at > archived_at):
        return f"the log is not archived, it failed at {as_text(failed_at)}: read why in the log of PostgreSQL"
    if archived_at is None:
        since = f" since {as_text(server['watched_since'])}" if server["watched_since"] else ""
        return f"no log was archived{since}: set archive_timeout = 60s, and check again in a minute"
    return None


def _role(server: dict[str, Any]) -> list[Finding]:
    """Check that the service can't change its own tables and guards."""
    see = "use separate roles (docs/database-roles.md)"
    if server["is_superuser"]:
        return [warning("database role", f"DATABASE_URL names a superuser: {see}")]
    if server["is_owner"]:
        return [warning("database role", f"DATABASE_URL names the owner of the tables: {see}")]
    return [ok("database role", "cannot change the tables")]


def _disk(data_directory: str | None) -> Finding:
    """Check the free space of a data directory that this user may see on this machine."""
    check, watch = "database disk", "watch it by the alert SesiDatabaseDisk"
    if data_directory is None:
        return ok(check, f"not checked, the role may not read where it is (pg_read_all_settings): {watch}")
    if not (folder := pathlib.Path(data_directory)).exists():
        return ok(check, f"not checked, it is on another machine: {watch}")
    return free_space(check, folder)


def free_space(check: str, folder: pathlib.Path) -> Finding:
    """Check that a tenth of a folder's disk is free."""
    usage = shutil.disk_usage(folder)
    return judged_space(check, folder, free=usage.free, total=usage.total)


def judged_space(check: str, folder: pathlib.Path, *, free: int, total: int) -> Finding:
    """Return the finding about the space of a folder's disk, in bytes."""
    text = f"{free / 2**30:.0f} of {total / 2**30:.0f} GiB are free"
    if free < total * LEAST_FREE:
        return warning(check, f"{text}: make room in {folder}, or enlarge the disk")
    return ok(check, text)
