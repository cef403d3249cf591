"""`sesi doctor` finds what administrators get wrong in PostgreSQL and Valkey."""

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from core.desk import figures
from tests.stack import Stack
from tests.tools.doctor.examined import PRODUCTION, examined, texts
from tools.doctor.findings import Result
from tools.doctor.postgres import judged_space
from tools.doctor.redis import judged
from tools.embedded import programs

pytestmark = pytest.mark.anyio
CHECKS = {
    "stop time", "trusted proxies", "open files", "Redis encryption", "provider encryption", "database", "migrations",
    "partitions", "durability", "timeouts", "PostgreSQL settings", "database connections", "database disk",
    "database encryption", "Redis", "NTP", "clock", "PUBLIC_PORT", "INTERNAL_PORT", "REALTIME_PORT", "JOBS_PORT",
    "OTP sender", "push sender", "gateway", "processes",
}  # fmt: skip
IN_PRODUCTION = {"secrets", "webhook fallback", "archiving", "database role", "last backup", "support contacts"}


@pytest.fixture(scope="module")
def own() -> Iterator[Stack]:
    """Yield servers without processes, whose settings the tests may change."""
    made = Stack(only_database=True)
    yield made
    made._stop_all()


@contextlib.asynccontextmanager
async def changed(own: Stack, change: str, undo: str) -> AsyncIterator[None]:
    """Run a statement, and another one afterwards; both take effect for new sessions."""
    await own.sql(change)
    await own.sql("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        await own.sql(undo)
        await own.sql("SELECT pg_reload_conf()")


async def test_healthy_servers_pass_every_check(own: Stack) -> None:
    found = await examined(own)
    assert {one.check for one in found} == CHECKS
    assert [one for one in found if one.result is Result.FAILURE] == []
    assert {one.check for one in found if one.result is Result.WARNING} <= {"NTP", "database disk"}  # of this machine
    assert {one.check for one in await examined(own, **PRODUCTION)} == CHECKS | IN_PRODUCTION


async def test_placeholder_contacts_are_a_warning_in_production(own: Stack) -> None:
    assert texts(await examined(own, **PRODUCTION), "support contacts", Result.WARNING) != ""
    ours = '{"primary": {"label": "a", "deeplink": "https://a"}, "secondary": {"label": "b", "deeplink": "https://b"}}'
    before = await own.sql("SELECT value::text FROM app_config WHERE key = 'support_handles'")
    change = "UPDATE app_config SET value = $1::jsonb WHERE key = 'support_handles'"
    await own.sql(change, ours)
    try:
        assert texts(await examined(own, **PRODUCTION), "support contacts", Result.OK) != ""
    finally:
        await own.sql(change, before[0][0])


async def test_synchronous_commit_turned_off_for_a_writing_role_is_a_failure(own: Stack) -> None:
    await own.sql("CREATE ROLE careless LOGIN")
    await own.sql("ALTER ROLE careless SET synchronous_commit = off")
    assert texts(await examined(own), "durability", Result.FAILURE) == ""  # it can't write
    await own.sql("GRANT INSERT ON chat_sessions TO careless")
    try:
        found = texts(await examined(own), "durability", Result.FAILURE)
        assert "ALTER ROLE careless RESET synchronous_commit" in found
    finally:
        await own.sql("DROP OWNED BY careless")
        await own.sql("DROP ROLE careless")


async def test_synchronous_commit_turned_off_for_the_database_is_a_failure(own: Stack) -> None:
    async with changed(own, "ALTER DATABASE sesi SET synchronous_commit = off", "ALTER DATABASE sesi RESET ALL"):
        found = texts(await examined(own), "durability", Result.FAILURE)
    assert "ALTER ROLE ALL IN DATABASE sesi RESET synchronous_commit" in found
    assert "set synchronous_commit = on" in found


async def test_autovacuum_off_is_a_failure(own: Stack) -> None:
    async with changed(own, "ALTER SYSTEM SET autovacuum = off", "ALTER SYSTEM RESET autovacuum"):
        while (await own.sql("SHOW autovacuum"))[0][0] != "off":
            pass
        assert "set autovacuum = on" in texts(await examined(own), "PostgreSQL settings", Result.FAILURE)


async def test_other_isolation_of_the_database_is_a_failure(own: Stack) -> None:
    change = "ALTER DATABASE sesi SET default_transaction_isolation = 'repeatable read'"
    async with changed(own, change, "ALTER DATABASE sesi RESET ALL"):
        assert "repeatable read" in texts(await examined(own), "PostgreSQL settings", Result.FAILURE)


async def test_encoding_other_than_utf8_is_a_failure(own: Stack) -> None:
    await own.sql("CREATE DATABASE plain ENCODING 'SQL_ASCII' TEMPLATE template0")
    found = await examined(own, DATABASE_URL=own.database_url.replace("/sesi?", "/plain?"))
    assert "ENCODING 'UTF8'" in texts(found, "PostgreSQL settings", Result.FAILURE)
    assert "use `sesi migrate`" in texts(found, "migrations", Result.FAILURE)


async def test_pools_above_the_connections_of_the_server_are_a_failure(own: Stack) -> None:
    found = texts(await examined(own, DATABASE_POOL_SIZE="200"), "database connections", Result.FAILURE)
    assert "open up to 603 of 197" in found
    assert "rolling deploy" in texts(
        await examined(own, DATABASE_POOL_SIZE="60"), "database connections", Result.WARNING
    )
    async with changed(own, "ALTER DATABASE sesi CONNECTION LIMIT 30", "ALTER DATABASE sesi CONNECTION LIMIT -1"):
        assert "42 of 30" in texts(await examined(own), "database connections", Result.FAILURE)
    pooled = await examined(own, DATABASE_POOL_SIZE="200", DATABASE_POOLER="transaction")
    assert texts(pooled, "database connections", Result.OK) == "a pooler shares them"


async def test_connections_are_counted_for_each_running_process(own: Stack) -> None:
    await own.sql(
        """INSERT INTO service_processes (place, kind, since_at, alive_at, lost_at, given_up_at, pid)
        SELECT 'api host ' || n, CASE WHEN n < 10 THEN 'api' ELSE 'jobs' END, now(), now(), now() + interval '3 s', now(), n
        FROM generate_series(1, 10) AS n"""
    )
    try:
        found = await examined(own)
        connections = texts(found, "database connections", Result.FAILURE)
        assert "(9 api, 1 realtime, 1 jobs) open up to 210 of 197" in connections
        assert "api host 1 (process 1), api host 10 (process 10), " in texts(found, "processes", Result.OK)
    finally:
        await own.sql("DELETE FROM service_processes")


async def test_few_partitions_ahead_are_a_warning(own: Stack) -> None:
    months = await own.sql(
        """SELECT inhrelid::regclass::text AS name FROM pg_inherits
        WHERE inhparent = 'webhook_logs'::regclass AND inhrelid::regclass::text NOT LIKE '%before%' ORDER BY 1"""
    )
    for row in months[-2:]:
        await own.sql(f"DROP TABLE {row['name']}")
    try:
        assert "made only 1 month ahead" in texts(await examined(own), "partitions", Result.WARNING)
    finally:
        own.command("migrate")


async def test_server_without_log_for_a_restore_is_a_warning(own: Stack) -> None:
    await own.sql("ALTER SYSTEM SET wal_level = minimal")
    await own.sql("ALTER SYSTEM SET max_wal_senders = 0")
    own.servers.stop()
    tool = own.servers._binaries / "pg_checksums"
    cluster = own.servers.postgres_dir / "cluster"
    programs.run([tool, "--disable", "--no-sync", "-D", cluster], own.servers._account)
    own.servers.start()
    try:
        found = texts(await examined(own, **PRODUCTION), "archiving", Result.WARNING)
        assert "set wal_level = replica" in found
        assert "set archive_mode = on" in found
        assert "pg_checksums --enable" in found
        await own.sql("ALTER SYSTEM RESET ALL")
        await own.sql("ALTER SYSTEM SET archive_mode = on")
        own.servers.stop()
        programs.run([tool, "--enable", "--no-sync", "-D", cluster], own.servers._account)
        own.servers.start()
        assert "archive_command and archive_library are empty" in await unarchived(own)
        assert await seconds_unarchived(own) > 0
        await archiving(own, "false", "failed_count > 0")
        assert "it failed at 20" in await unarchived(own)
        await archiving(own, "true", "last_archived_time > last_failed_time")
        assert await unarchived(own) == ""
        async with asyncio.timeout(30):
            while await seconds_unarchived(own) > 0:  # several segments wait
                pass
        assert texts(await examined(own, **PRODUCTION), "archiving", Result.OK) != ""
        await archiving(own, "false", "last_failed_time > last_archived_time")
        assert "it failed at 20" in await unarchived(own)
        assert await seconds_unarchived(own) > 0
    finally:
        await own.sql("ALTER SYSTEM RESET ALL")


async def unarchived(own: Stack, **env: str) -> str:
    """Return what the doctor warns of in production about the archive."""
    return texts(await examined(own, **PRODUCTION, **env), "archiving", Result.WARNING)


async def seconds_unarchived(own: Stack) -> float:
    """Return the figure of the cluster about the archive."""
    return (await own.sql(figures.SQL["unarchived"]))[0]["seconds"]


async def archiving(own: Stack, command: str, done: str) -> None:
    """Let a command archive the log, and wait until it has ended."""
    await own.sql(f"ALTER SYSTEM SET archive_command = '{command}'")
    await own.sql("SELECT pg_reload_conf()")
    await own.sql("SELECT pg_logical_emit_message(false, 'test', 'a segment that is not empty')")
    await own.sql("SELECT pg_switch_wal()")
    async with asyncio.timeout(30):
        while not (await own.sql(f"SELECT coalesce({done}, false) FROM pg_stat_archiver"))[0][0]:
            pass


async def test_superuser_and_owner_are_a_warning_in_production(own: Stack) -> None:
    assert "names a superuser" in texts(await examined(own, **PRODUCTION), "database role", Result.WARNING)
    await own.sql("CREATE ROLE holder LOGIN")
    await own.sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO holder")
    url = own.database_url.replace("postgres@", "holder@")
    assert texts(await examined(own, **PRODUCTION, DATABASE_URL=url), "database role", Result.OK) != ""
    await own.sql("ALTER TABLE chat_sessions OWNER TO holder")
    try:
        found = await examined(own, **PRODUCTION, DATABASE_URL=url)
        assert "names the owner" in texts(found, "database role", Result.WARNING)
    finally:
        for statement in ("REASSIGN OWNED BY holder TO postgres", "DROP OWNED BY holder", "DROP ROLE holder"):
            await own.sql(statement)


async def test_plain_text_to_an_unnamed_host_is_a_failure(own: Stack) -> None:
    host, port = own.database_url.rpartition("@")[2].partition("/")[0].split(":")
    plain = own.command(
        "doctor", check=False, DATABASE_URL="postgresql:///sesi", PGHOST=host, PGPORT=port, PGUSER="postgres"
    )  # fmt: skip
    assert "bad  database encryption: the connection is plain text" in " ".join(plain.stdout.split("\n"))


async def test_valkey_that_may_refuse_writes_or_saves_data_is_a_warning(own: Stack) -> None:
    client = redis.Redis.from_url(own.redis_url)
    client.config_set("maxmemory", "100mb")
    assert "maxmemory-policy volatile-ttl" in texts(await examined(own), "Redis", Result.WARNING)
    client.config_set("maxmemory-policy", "volatile-ttl")
    assert texts(await examined(own), "Redis", Result.WARNING) == ""
    client.config_set("save", "3600 1")
    assert 'set save ""' in texts(await examined(own), "Redis", Result.WARNING)
    client.config_set("save", "")
    client.config_set("appendonly", "yes")
    assert "appendonly no" in texts(await examined(own), "Redis", Result.WARNING)
    client.config_set("appendonly", "no")
    client.config_set("maxmemory", "0")
    client.close()


def test_redis_before_7_is_a_failure() -> None:
    (found,) = judged({"redis_version": "6.2.14"}, saves="")
    assert (found.result, "use Redis 7 or newer" in found.text) == (Result.FAILURE, True)


async def test_silent_redis_is_a_failure_and_the_other_checks_run(own: Stack) -> None:
    found = await examined(own, REDIS_URL="redis://127.0.0.1:1/0")
    assert "check REDIS_URL" in texts(found, "Redis", Result.FAILURE)
    assert {one.check for one in found} == CHECKS


async def test_database_that_refuses_is_a_failure_with_its_words(own: Stack) -> None:
    """As it does when its disk is full: at the connection, or at a later statement."""
    async with changed(own, "ALTER DATABASE sesi CONNECTION LIMIT 0", "ALTER DATABASE sesi CONNECTION LIMIT -1"):
        await own.sql("CREATE ROLE ordinary LOGIN")
        url = own.database_url.replace("postgres@", "ordinary@")
        said = 'TooManyConnectionsError: too many connections for database "sesi"'
        assert said in texts(await examined(own, DATABASE_URL=url), "database", Result.FAILURE)
        production = texts(await examined(own, **PRODUCTION, DATABASE_URL=url), "database", Result.FAILURE)
        assert (said in production, "sesi up" in production) == (True, False)
    found = await examined(own, DATABASE_URL=url)
    assert "refuses (InsufficientPrivilegeError: permission denied for" in texts(found, "database", Result.FAILURE)
    await own.sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO ordinary")
    found = await examined(own, DATABASE_URL=url)
    assert "not checked, the role may not read" in texts(found, "database disk", Result.OK)
    await own.sql("DROP OWNED BY ordinary")
    await own.sql("DROP ROLE ordinary")


def test_full_disk_is_a_warning() -> None:
    folder = pathlib.Path("/var/lib/postgresql")
    assert judged_space("database disk", folder, free=9, total=100).result is Result.WARNING
    assert judged_space("database disk", folder, free=10, total=100).result is Result.OK
