"""deploy/roles.sql separates the roles of migrations, processes, the jobs process and reports."""

import asyncio
import contextlib
import datetime as dt
import pathlib
import subprocess
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from core.accounts.customers import store as customers
from core.app.reactions import open_runtime
from core.base import ids
from core.base.id_ranges import month_of, months_after
from core.desk import figures
from core.desk.timed_work import DEADLINES
from core.privacy import partition_upkeep, retention
from core.runtime.container import Runtime
from core.settings.environment import read
from jobs.schedule import SWEEPS
from tests.clock import HandClock
from tests.stack import Stack, World
from tests.tools.doctor.examined import PRODUCTION, examined, texts
from tests.verdicts import check_books
from tools.doctor.findings import Result
from tools.driving.service import PROCESSES
from tools.embedded import programs

pytestmark = pytest.mark.anyio
ROLES_SQL = pathlib.Path(__file__).parents[2] / "deploy" / "roles.sql"
OWNERS = """SELECT DISTINCT pg_get_userbyid(c.relowner)::text AS owner, coalesce(p.relname, c.relname)::text AS name
FROM pg_class AS c LEFT JOIN pg_inherits AS i ON i.inhrelid = c.oid LEFT JOIN pg_class AS p ON p.oid = i.inhparent
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')"""
OTHERS_ROUTINES = """SELECT count(*) FROM pg_proc AS f
WHERE pronamespace = 'public'::regnamespace AND pg_get_userbyid(proowner) <> 'sesi_migrate'
AND NOT EXISTS (SELECT 1 FROM pg_depend AS d WHERE d.objid = f.oid AND d.deptype = 'e')"""
PARTITIONED = {"chat_messages", "chat_request_notifications", "delivery_trail", "webhook_logs"}
MONTHS = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'webhook_logs'::regclass"
OF_MONTHS = """SELECT DISTINCT pg_get_userbyid(relowner)::text FROM pg_class JOIN pg_inherits ON inhrelid = oid
WHERE inhparent IN ('chat_messages'::regclass, 'chat_request_notifications'::regclass, 'delivery_trail'::regclass, 'webhook_logs'::regclass)"""
DAY = dt.timedelta(days=1)


def separate(stack: Stack, database: str = "sesi") -> None:
    """Run deploy/roles.sql as an administrator does."""
    host, port = stack.database_url.rpartition("@")[2].partition("/")[0].split(":")
    psql = [stack.servers._binaries / "psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-h", host, "-p", port, "-U", "postgres"]
    programs.run([*psql, database], stack.servers._account, ROLES_SQL.read_text())


def url_of(stack: Stack, role: str, database: str = "sesi") -> str:
    """Return the database's URL for a role."""
    return stack.database_url.replace("postgres@", f"{role}@").replace("/sesi?", f"/{database}?")


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Yield a service at sixty times real speed whose database had one owner and was separated."""
    made = Stack(only_database=True, scale=60, OPERATOR_REFRESH_TOKEN_HOURS="720")
    try:
        separate(made)
        made.env |= {"DATABASE_URL": url_of(made, "sesi_run"), "DATABASE_READ_URL": url_of(made, "sesi_read")}
        made.start("api")
        made.start("realtime")
        made.start("jobs", DATABASE_URL=url_of(made, "sesi_jobs"))
        for name in ("api", "realtime", "jobs"):
            made.wait_ready(name)
        yield made
    finally:
        made.close()


@pytest.fixture
async def world(stack: Stack) -> AsyncIterator[World]:
    """Yield users of the service."""
    made = World(stack)
    await made.scale_silence()
    yield made
    await made.leave_searches()
    await made.close()


@pytest.fixture(scope="module")
async def template(stack: Stack) -> str:
    """Return the name of a database that `sesi migrate` made with its role, separated before and after."""
    await stack.sql("CREATE DATABASE made_by_role")
    separate(stack, "made_by_role")
    stack.command("migrate", DATABASE_URL=url_of(stack, "sesi_migrate", "made_by_role"), DATABASE_READ_URL="")
    separate(stack, "made_by_role")
    return "made_by_role"


@pytest.fixture
async def empty(stack: Stack, template: str) -> AsyncIterator[str]:
    """Yield the name of a copy of it, separated because a copy lacks the privileges on the database itself."""
    await stack.sql(f"CREATE DATABASE empty TEMPLATE {template}")
    try:
        separate(stack, "empty")
        yield "empty"
    finally:
        await stack.sql("DROP DATABASE empty WITH (FORCE)")


async def do_all_work(runtime: Runtime) -> None:
    """Write a row, and run everything that the jobs process runs."""
    async with runtime.transaction() as tx:
        await customers.create_anonymous(tx, ids.new_id())
    for run in (*DEADLINES.values(), *(sweep.run for sweep in SWEEPS)):
        await run(runtime)


async def opened(stack: Stack, role: str, database: str) -> Runtime:
    """Open a runtime in this process with a role, at real speed."""
    env = {**stack.env, "DATABASE_URL": url_of(stack, role, database), "DATABASE_READ_URL": "", "SESI_TIME_SCALE": "1"}
    return await open_runtime(read(env))


async def refused(stack: Stack, role: str, statement: str) -> str:
    """Run statements as a role, and return the class of the refusal; an empty text if it was not refused."""
    connection = await asyncpg.connect(url_of(stack, role))
    try:
        for one in statement.split(";"):
            await connection.execute(one)
    except asyncpg.PostgresError as error:
        return type(error).__name__
    finally:
        await connection.close()
    return ""


def errors_of(stack: Stack, name: str) -> list[str]:
    """Return the errors that a process logged, without those of a server that was too slow on a busy machine."""
    return [line for line in stack.log(name).splitlines() if "rror" in line and '"TimeoutError"' not in line]


async def test_paid_session_and_audit_run_without_rights_on_the_schema(world: World, stack: Stack) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    phone, other = await customer.start("chat"), await mitra.start("chat")
    await phone.say(session_id, "halo")
    await other.until(lambda: [m["content"] for m in other.transcript(session_id)] == ["halo"])
    await other.mark_read(session_id)
    assert await phone.wait("session_expired") is not None
    await customer.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "terima kasih"})
    await mitra.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "sama-sama"})
    await phone.wait("session_completed")
    report = await world.until(world.audit, lambda found: found["replica_lag_seconds"] is not None)  # by sesi_read
    check_books(report)
    operator = await world.operator()
    assert (await operator.get("/internal/audit-log"))["replica_lag_seconds"] is not None
    assert "0 violations" in stack.command("audit").stdout
    assert {name: found for name in PROCESSES if (found := errors_of(stack, name))} == {}


async def test_every_sweep_and_deadline_runs_as_the_jobs_role(stack: Stack, empty: str) -> None:
    runtime = await opened(stack, "sesi_jobs", empty)
    try:
        for run in (*DEADLINES.values(), *(sweep.run for sweep in SWEEPS)):
            await run(runtime)
    finally:
        await runtime.close()


async def test_jobs_role_makes_and_removes_months(stack: Stack, empty: str) -> None:
    runtime = await opened(stack, "sesi_jobs", empty)
    try:
        runtime.clock = HandClock(months_after(month_of(runtime.now()), 15) + 19 * DAY)
        assert len(await partition_upkeep.make_ahead(runtime)) == 60
        before = await runtime.db.fetchval(MONTHS)
        runtime.config.values = {**runtime.config.values, "retention_webhook_days": 100}
        await retention.remove_webhook_months(runtime)
        assert await runtime.db.fetchval(MONTHS) < before - 5
    finally:
        await runtime.close()


async def test_jobs_role_removes_unused_customers(stack: Stack, empty: str) -> None:
    runtime = await opened(stack, "sesi_jobs", empty)
    try:
        async with runtime.transaction() as tx:
            await customers.create_anonymous(tx, ids.new_id())
        runtime.clock = HandClock(runtime.now() + 91 * DAY)
        await retention.remove_unused_customers(runtime)
        assert await runtime.db.fetchval("SELECT count(*) FROM customers") == 0
    finally:
        await runtime.close()


@contextlib.contextmanager
def follower(stack: Stack, folder: pathlib.Path, *, name: str = "") -> Iterator[None]:
    """Let a program read the log of the database, as a standby with this name; without one, the program names itself."""
    host, port = stack.database_url.rpartition("@")[2].partition("/")[0].split(":")
    source = f"host={host} port={port} user=postgres sslmode=disable" + (f" application_name={name}" if name else "")
    folder.mkdir()
    command = [stack.servers._binaries / "pg_receivewal", "-d", source, "-D", folder, "--no-loop"]
    process = subprocess.Popen(command, env=programs.environment(), stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


async def test_jobs_role_sees_standbys_but_no_programs_that_copy_the_log(
    world: World, stack: Stack, empty: str, tmp_path: pathlib.Path
) -> None:
    async def streams() -> int:
        rows = await stack.sql("SELECT count(*)::int FROM pg_stat_replication WHERE state = 'streaming'")
        return int(rows[0][0])

    jobs, run = await opened(stack, "sesi_jobs", empty), await opened(stack, "sesi_run", empty)
    try:
        assert await figures.standbys(jobs.db) == {}
        with follower(stack, tmp_path / "standby", name="db2"), follower(stack, tmp_path / "backup"):
            await world.until(streams, lambda found: found == 2)
            assert (await figures.standbys(jobs.db)).keys() == {"db2"}
            assert await figures.standbys(run.db) == {}
    finally:
        await jobs.close()
        await run.close()


async def test_second_login_of_the_jobs_role_makes_months_that_the_first_one_owns(stack: Stack, empty: str) -> None:
    await stack.sql("CREATE ROLE sesi_jobs_b LOGIN IN ROLE sesi_jobs")
    runtime = await opened(stack, "sesi_jobs_b", empty)
    try:
        runtime.clock = HandClock(months_after(month_of(runtime.now()), 2))
        assert len(await partition_upkeep.make_ahead(runtime)) == 8
        assert [row[0] for row in await runtime.db.fetch(OF_MONTHS)] == ["sesi_jobs"]
    finally:
        await runtime.close()
        await stack.sql("DROP ROLE sesi_jobs_b")


async def test_api_and_realtime_can_make_no_months(stack: Stack, empty: str) -> None:
    run = await opened(stack, "sesi_run", empty)
    try:
        run.clock = HandClock(months_after(month_of(run.now()), 1))
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await partition_upkeep.make_ahead(run)
    finally:
        await run.close()


async def test_migration_makes_months_that_the_jobs_role_owns(stack: Stack, empty: str) -> None:
    owner = await asyncpg.connect(url_of(stack, "postgres", empty))
    try:
        last = await owner.fetchval(
            "SELECT max(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'chat_messages'::regclass"
            " AND inhrelid::regclass::text NOT LIKE '%before%'"
        )
        await owner.execute(f"DROP TABLE {last}")
        stack.command("migrate", DATABASE_URL=url_of(stack, "sesi_migrate", empty), DATABASE_READ_URL="")
        assert await owner.fetchval("SELECT to_regclass($1) IS NOT NULL", last)
        assert [row[0] for row in await owner.fetch(OF_MONTHS)] == ["sesi_jobs"]
        table_of_a_later_migration = "CREATE TABLE later (id INT PRIMARY KEY)"
        later = await asyncpg.connect(url_of(stack, "sesi_migrate", empty))
        await later.execute(table_of_a_later_migration)
        await later.execute("ALTER TABLE chat_messages ADD COLUMN later INT")
        await later.close()
        assert await owner.fetchval("SELECT has_table_privilege('sesi_run', 'later', 'SELECT, INSERT, UPDATE, DELETE')")
        assert await owner.fetchval("SELECT has_table_privilege('sesi_read', 'later', 'SELECT')")
    finally:
        await owner.close()


async def test_database_of_one_owner_is_separated_and_again(stack: Stack) -> None:
    await stack.sql("ALTER ROLE sesi_migrate NOLOGIN")
    separate(stack)
    assert (await stack.sql("SELECT rolcanlogin FROM pg_roles WHERE rolname = 'sesi_migrate'"))[0][0] is False
    await stack.sql("ALTER ROLE sesi_migrate LOGIN")
    for row in await stack.sql(OWNERS):
        assert row["owner"] == ("sesi_jobs" if row["name"] in PARTITIONED else "sesi_migrate"), row["name"]
    assert (await stack.sql(OTHERS_ROUTINES))[0][0] == 0


async def test_processes_of_a_plain_owner_go_on_after_its_database_is_separated(stack: Stack) -> None:
    await stack.sql("CREATE ROLE plain LOGIN")
    await stack.sql("CREATE DATABASE of_plain OWNER plain")
    stack.command("migrate", DATABASE_URL=url_of(stack, "plain", "of_plain"), DATABASE_READ_URL="")
    runtime = await opened(stack, "plain", "of_plain")
    try:
        assert {row["owner"] for row in await runtime.db.fetch(OWNERS)} == {"plain"}
        for _ in range(2):
            separate(stack, "of_plain")
            assert {row["owner"] for row in await runtime.db.fetch(OWNERS)} == {"sesi_jobs", "sesi_migrate"}
            await do_all_work(runtime)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await runtime.db.fetch("DELETE FROM customer_transactions")
    finally:
        await runtime.close()
    owner = await asyncpg.connect(url_of(stack, "postgres", "of_plain"))
    for statement in ("REASSIGN OWNED BY plain TO postgres", "DROP OWNED BY plain", "DROP ROLE plain"):
        await owner.execute(statement)
    await owner.close()
    await stack.sql("DROP DATABASE of_plain WITH (FORCE)")


async def test_separation_gives_up_on_a_table_that_is_in_use(stack: Stack, empty: str) -> None:
    owner = await asyncpg.connect(url_of(stack, "postgres", empty))
    try:
        await owner.execute("ALTER TABLE customers OWNER TO postgres")
        async with owner.transaction():
            await owner.execute("LOCK TABLE customers IN ACCESS SHARE MODE")
            with pytest.raises(programs.EmbeddedError, match="lock timeout"):
                await asyncio.wait_for(asyncio.to_thread(separate, stack, empty), 20)
        separate(stack, empty)
    finally:
        await owner.close()


@pytest.mark.parametrize("role", ["sesi_run", "sesi_jobs"])
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE customers ADD COLUMN more INT",
        "ALTER TABLE customer_transactions DISABLE TRIGGER ledger_is_append_only",
        "SET session_replication_role = replica",
        "DROP TABLE outages",
        "TRUNCATE deliveries",
        "UPDATE customer_transactions SET amount = 0",
        "DELETE FROM operator_audit_log",
        "UPDATE pricing_tiers_history SET after = NULL",
        "DELETE FROM payment_requests",
        "DELETE FROM chat_sessions",
        "INSERT INTO migration DEFAULT VALUES",
        "CREATE SCHEMA more",
        "CREATE ROLE more",
    ],
)
async def test_processes_are_refused_what_guards_protect(stack: Stack, role: str, statement: str) -> None:
    assert await refused(stack, role, statement) == "InsufficientPrivilegeError"


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE chat_messages DISABLE TRIGGER ALL",
        "DROP TABLE webhook_logs",
        "TRUNCATE chat_messages",
        "CREATE TABLE more (id INT)",
        "CREATE TEMP TABLE more (id INT)",
    ],
)
async def test_api_and_realtime_are_refused_changes_of_partitioned_tables(stack: Stack, statement: str) -> None:
    assert await refused(stack, "sesi_run", statement) == "InsufficientPrivilegeError"


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT refresh_token_hash FROM auth_sessions",
        "SELECT * FROM control_center_users",
        "SELECT password_hash, totp_secret FROM control_center_users",
        "SELECT code_hash FROM otp_requests",
        "SELECT fingerprint FROM idempotency_keys",
        "SELECT 1 FROM used_identity_tokens",
    ],
)
async def test_reports_are_refused_credentials(stack: Stack, statement: str) -> None:
    assert await refused(stack, "sesi_read", statement) == "InsufficientPrivilegeError"


async def test_reports_are_refused_writes_even_without_their_read_only_setting(stack: Stack) -> None:
    assert await refused(stack, "sesi_read", "DELETE FROM deliveries") == "ReadOnlySQLTransactionError"
    for statement in ("DELETE FROM deliveries", "CREATE TABLE more (id INT)"):
        switched = f"SET default_transaction_read_only = off; {statement}"
        assert await refused(stack, "sesi_read", switched) == "InsufficientPrivilegeError"


async def test_roles_have_timeouts_of_their_own(stack: Stack) -> None:
    for role, least in (("sesi_run", "4s"), ("sesi_jobs", "4s"), ("sesi_read", "15min")):
        connection = await asyncpg.connect(url_of(stack, role))
        assert await connection.fetchval("SHOW statement_timeout") == least
        await connection.close()


async def test_doctor_warns_of_the_owner_and_passes_the_role_of_processes(stack: Stack) -> None:
    run = {**PRODUCTION, "DATABASE_READ_URL": ""}
    assert texts(await examined(stack, **run), "database role", Result.OK) != ""
    owner = {**run, "DATABASE_URL": url_of(stack, "sesi_migrate")}
    assert "names the owner" in texts(await examined(stack, **owner), "database role", Result.WARNING)


async def test_owner_who_may_create_roles_separates_them_without_a_superuser(stack: Stack) -> None:
    """As on a hosted database. Other names, because roles belong to the whole server."""
    await stack.sql("CREATE ROLE hosted LOGIN CREATEROLE")
    await stack.sql("CREATE DATABASE hosted OWNER hosted")
    host, port = stack.database_url.rpartition("@")[2].partition("/")[0].split(":")
    names = [part for role in ("migrate", "run", "jobs", "read") for part in ("-v", f"{role}=hosted_{role}")]
    psql = [stack.servers._binaries / "psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-h", host, "-p", port, "-U", "hosted"]
    for _ in range(2):
        programs.run([*psql, *names, "hosted"], stack.servers._account, ROLES_SQL.read_text())
        stack.command("migrate", DATABASE_URL=url_of(stack, "hosted_migrate", "hosted"), DATABASE_READ_URL="")
    programs.run([*psql, *names, "hosted"], stack.servers._account, ROLES_SQL.read_text())
    connection = await asyncpg.connect(url_of(stack, "postgres", "hosted"))
    assert {row["owner"] for row in await connection.fetch(OWNERS)} == {"hosted_jobs", "hosted_migrate"}
    await connection.close()
    runtime = await opened(stack, "hosted_jobs", "hosted")
    try:
        await do_all_work(runtime)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await runtime.db.fetch("DELETE FROM customer_transactions")
    finally:
        await runtime.close()


def test_other_names_are_taken(stack: Stack) -> None:
    host, port = stack.database_url.rpartition("@")[2].partition("/")[0].split(":")
    psql = [stack.servers._binaries / "psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-h", host, "-p", port, "-U", "postgres"]
    names = ["-v", "migrate=Other owner", "-v", "run=other_run", "-v", "jobs=other_jobs", "-v", "read=other_read"]
    asyncio.run(stack.sql("CREATE DATABASE other"))
    programs.run([*psql, *names, "other"], stack.servers._account, ROLES_SQL.read_text())
    assert (
        asyncio.run(stack.sql("SELECT count(*) FROM pg_roles WHERE rolname IN ('Other owner', 'other_read')"))[0][0]
        == 2
    )
