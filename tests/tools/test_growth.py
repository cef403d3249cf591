"""Generated history: it violates no rule, leaves the schema as it was, and every statement of the product finds its
rows by index.
"""

import datetime as dt
import importlib
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from core.app.reactions import open_runtime
from core.base.id_ranges import month_of, months_after
from core.desk.audits.rules import Depth
from core.desk.ledger.audit import first_of
from core.desk.ledger.audit_rules import rules_of
from core.desk.support import AT_MOST
from core.payments.reconciliation import store as reconciliation
from core.payments.states import PaymentStatus
from core.sessions.states import SessionStatus
from core.settings.environment import read as read_settings
from core.storage import sql_files
from core.storage.partitions import PARTITIONED, name_of
from core.storage.statements import Statement
from tests import plans
from tests.stack import Stack, World
from tools.bench import grow

pytestmark = pytest.mark.anyio
ROOT = pathlib.Path(__file__).parents[2]
# Statements that may read a growing table as a whole -> those tables. The history has no
# erased customer, so the planner begins the first with these; for the second it expects ten mitras, nearly all.
WHOLE = {
    "core.erasures.store.of_lines": {"customers"},
    "core.sessions.views.OPEN_OF_MITRAS": {"chat_sessions"},
}
# Texts that are only a part of statements. A new one gets a name with an underscore.
PARTS = {
    "core.desk.failed_pairings.FAILURES",
    "core.desk.reports.days",
    "core.desk.support.customers",
    "core.desk.support.PAYMENTS",
    "core.pairing.promises.store.judge",
    "core.payments.views.REQUEST",
    "core.privacy.erase_columns.LEFT",
    "core.sessions.messages.chats.messages",
    "core.sessions.own_lists.TRANSACTIONS",
    "core.sessions.own_session.VIEW",
    "core.sessions.views.VIEW",
}
# A statement as a public constant. One with braces is put together at run time.
CONSTANT = re.compile(r"(?:WITH|SELECT|INSERT|UPDATE|DELETE)\b[^{]*\Z")
# Indexes that may be read from end to end: those of unfinished work, and of partitions without rows.
SHORT = """SELECT indexrelid::regclass::text AS name FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
  WHERE i.indpred IS NOT NULL OR t.reltuples <= 0"""
# Rows that are not finished, with those that a rule reads for each: its payment request and its audit log's limits.
OPEN_WORK = """SELECT 100 + 3 * ((SELECT count(*) FROM chat_sessions WHERE status NOT IN ('completed', 'failed', 'cancelled'))
    + (SELECT count(*) FROM payment_requests WHERE status IN ('pending', 'confirmed'))
    + (SELECT count(*) FROM session_extensions WHERE status = 'pending')
    + (SELECT count(*) FROM chat_request_notifications WHERE response IS NULL)
    + (SELECT count(*) FROM deliveries) + (SELECT count(*) FROM mitra_online_status WHERE is_online)) AS open_work"""
CUSTOMERS, SESSIONS, PAYMENTS = "/internal/customers", "/internal/sessions", "/internal/payment-requests"


@pytest.fixture(scope="module")
def migrated() -> Iterator[Stack]:
    """Yield a migrated database."""
    made = Stack(only_database=True)
    yield made
    made.close()


@pytest.fixture(scope="module")
async def shape(migrated: Stack) -> list[Any]:
    """Return the schema before a history is generated."""
    return await migrated.sql(grow.SHAPE)


@pytest.fixture(scope="module")
def grown(migrated: Stack, shape: list[Any]) -> Stack:
    """Return the database with a generated history, and an api process."""
    migrated.command(*plans.GROWTH)
    migrated.start("api")
    return migrated


def statements() -> Iterator[tuple[str, str]]:
    """Yield every statement of core with its name: those of the files, those compiled from tables, and constants."""
    for path in sorted((ROOT / "core").rglob("*.py")):
        home = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if path.with_suffix(".sql").exists():
            yield from ((f"{home}.{name}", sql) for name, sql in sql_files.load(str(path)).items())
        if path.name != "__init__.py":
            for name, one in vars(importlib.import_module(home)).items():
                if isinstance(one, Statement):
                    yield f"{home}.{name}", one.sql
                elif isinstance(one, str) and CONSTANT.match(one) and not name.startswith("_"):
                    yield f"{home}.{name}", one


async def test_generated_history_passes_the_audit(grown: Stack) -> None:
    assert grown.command("audit").stdout == f"5000 sessions, {await payments_of(grown)} payments, 0 violations\n"
    # the database checks the amount of each payment again
    await grown.sql("UPDATE payment_requests SET amount = amount")
    counts = await grown.sql(
        "SELECT (SELECT count(*) FROM chat_messages) AS messages, (SELECT count(*) FROM chat_request_notifications) AS notifications"
    )
    assert 22_000 < counts[0]["messages"] < 28_000
    assert 14_000 < counts[0]["notifications"] < 16_000


async def sessions_of(stack: Stack) -> int:
    return (await stack.sql("SELECT count(*) AS n FROM chat_sessions"))[0]["n"]


async def payments_of(stack: Stack) -> int:
    return (await stack.sql("SELECT count(*) AS n FROM payment_requests"))[0]["n"]


async def test_generated_history_has_every_state_and_ids_in_order_of_time(grown: Stack) -> None:
    for table, states in (("chat_sessions", SessionStatus), ("payment_requests", PaymentStatus)):
        assert {row["status"] for row in await grown.sql(f"SELECT DISTINCT status FROM {table}")} == set(states)
    for table in ("chat_sessions", "chat_messages", "payment_requests", "customers"):
        away = await grown.sql(
            f"""SELECT id FROM {table} WHERE uuid_extract_version(id) <> 7
                OR abs(extract(epoch FROM uuid_extract_timestamp(id) - created_at)) > 0.002"""
        )
        assert away == [], table


async def test_generated_history_leaves_the_schema_unchanged(grown: Stack, shape: list[Any]) -> None:
    assert len(shape[0][0]) > 100
    assert await grown.sql(grow.SHAPE) == shape


async def test_generated_history_fills_a_partition_for_each_of_24_months(grown: Stack) -> None:
    now = (await grown.sql("SELECT now()"))[0]["now"]
    for table, key in PARTITIONED.items():
        rows = await grown.sql(f"SELECT DISTINCT tableoid::regclass::text AS name FROM {table}")
        kept = 3 if table == "delivery_trail" else 24
        months = [name_of(table, months_after(month_of(now), -n)) for n in range(kept)]
        assert set(months) <= {row["name"] for row in rows}, table
        misplaced = await grown.sql(
            f"""SELECT {key} FROM {table} WHERE to_char(uuid_extract_timestamp({key}) AT TIME ZONE 'UTC', '"{table}_"YYYY_MM')
                <> tableoid::regclass::text"""
        )
        assert misplaced == [], table


async def test_history_is_generated_twice_only_on_request_and_never_in_production(grown: Stack) -> None:
    again = grown.command(*plans.GROWTH, check=False)
    assert again.returncode == 1
    assert "5000 sessions" in again.stderr
    assert "--more" in again.stderr
    refused = grown.command(
        "grow", "--more", check=False, ENVIRONMENT="production", GATEWAY_ENABLED="true", GATEWAY_BASE_URL="https://pay.example.test",
        GATEWAY_SECRET_KEY="a-secret-of-the-gateway", PUSH_SENDER="log", OTP_SENDER="log",
    )  # fmt: skip
    assert refused.returncode == 1
    assert await sessions_of(grown) == 5000


async def test_every_statement_of_a_module_finds_its_rows_by_an_index(grown: Stack) -> None:
    """A generic plan needs no values. Statements that are put together at run time are seen in tests/tools/test_plans.py."""
    connection = await asyncpg.connect(grown.database_url)
    try:
        short = {row["name"] for row in await connection.fetch(SHORT)}
        planned = {name: await plans.planned(connection, sql) for name, sql in statements() if name not in PARTS}
    finally:
        await connection.close()
    assert len(planned) > 400
    scans = {
        name: {read.table for read in plan.reads if read.is_whole and read.index not in short} & {*grow.LARGE}
        for name, plan in planned.items()
    }
    assert {name: tables for name, tables in scans.items() if tables} == WHOLE


async def test_every_cheap_rule_of_the_audit_reads_open_work_only(grown: Stack) -> None:
    """They run every minute. Each reads by an index and at most as much as there is open work, in every month."""
    runtime = await open_runtime(read_settings(grown.env), pool_size=2)
    connection = await asyncpg.connect(grown.database_url)
    try:
        found: dict[str, plans.SeenPlan] = {}
        for rule in rules_of(Depth.CHEAP):
            args = () if rule.arguments is None else rule.arguments(runtime, runtime.now())
            async with plans.explained(connection) as seen:
                await connection.fetch(*first_of(rule, args or ()))
            found[rule.name] = seen[-1]
        (row,) = await connection.fetch(OPEN_WORK)
    finally:
        await connection.close()
        await runtime.close()
    assert {name: plan.scans for name, plan in found.items() if plan.scans} == {}
    assert {name: plan.rows for name, plan in found.items() if plan.rows > row["open_work"]} == {}


@pytest.mark.parametrize("page", ["first", "second"])
async def test_comparison_with_the_gateway_reads_no_older_requests(grown: Stack, page: str) -> None:
    connection = await asyncpg.connect(grown.database_url)
    try:
        async with plans.explained(connection) as seen:
            await connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            since = await connection.fetchval("SELECT max(created_at) FROM payment_requests") - dt.timedelta(days=2)
            found = await reconciliation.requests_since(connection, since)
            after = None if page == "first" else found[0]
            assert (
                await reconciliation.requests_since(connection, since, after=after)
                == found[0 if after is None else 1 :]
            )
    finally:
        await connection.close()
    assert 1 < len(found) <= seen[-1].rows < 5 * len(found)


async def test_missing_index_is_reported(grown: Stack) -> None:
    sql = dict(statements())["core.desk.timeline.timeline.failures"]
    connection = await asyncpg.connect(grown.database_url)
    try:
        assert plans.fault(await plans.planned(connection, sql)) is None
        async with plans.explained(connection):
            await connection.execute("DROP INDEX pairing_failures_payment")
            seen = await plans.planned(connection, sql)
    finally:
        await connection.close()
    assert plans.fault(seen) == "reads all of pairing_failures"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT seq FROM chat_messages WHERE id = gen_random_uuid()", "reads all of chat_messages"),
        ("SELECT id FROM webhook_logs WHERE gateway_invoice_id = 'x'", r"reads \d\d months of webhook_logs"),
        ("SELECT id FROM chat_sessions WHERE id > '00000000-0000-0000-0000-000000000000'", r"reads \d,\d+ rows"),
        ("SELECT id FROM chat_sessions ORDER BY id LIMIT 5", "None"),
    ],
)
async def test_run_that_reads_much_is_reported(grown: Stack, statement: str, expected: str) -> None:
    connection = await asyncpg.connect(grown.database_url)
    try:
        async with plans.explained(connection) as seen:
            await connection.fetch(statement)
    finally:
        await connection.close()
    assert re.fullmatch(expected, str(plans.fault(seen[-1])))


async def test_searches_for_common_and_rare_names_are_complete(grown: Stack) -> None:
    world = World(grown)
    operator = await world.operator()
    await grown.sql(
        "UPDATE customers SET display_name = 'Zebulon' WHERE id = (SELECT customer_id FROM chat_sessions GROUP BY 1 ORDER BY count(*) DESC LIMIT 1)"
    )
    everybody = (await grown.sql("SELECT count(*) AS n FROM customers WHERE display_name ILIKE '%a%'"))[0]["n"]
    assert everybody > AT_MOST
    for q in ("a", "Zebulon", "zebu", "Indra"):
        for path, sql in (
            (CUSTOMERS, "SELECT id::text FROM customers t WHERE (display_name ILIKE $1 OR email ILIKE $1)"),
            (
                SESSIONS,
                """SELECT t.id::text FROM chat_sessions t JOIN customers c ON c.id = t.customer_id LEFT JOIN mitras m ON m.id = t.mitra_id
                          WHERE (c.display_name ILIKE $1 OR m.display_name ILIKE $1)""",
            ),
            (
                PAYMENTS,
                "SELECT t.id::text FROM payment_requests t JOIN customers c ON c.id = t.customer_id WHERE c.display_name ILIKE $1",
            ),
        ):
            first = await operator.get(path, q=q, limit=7)
            items = first["items"]
            if first["next_cursor"]:
                items += (await operator.get(path, q=q, limit=7, cursor=first["next_cursor"]))["items"]
            expected = await grown.sql(f"{sql} ORDER BY t.created_at DESC, t.id DESC LIMIT 14", f"%{q}%")
            by = "payment_request_id" if path == PAYMENTS else "id"
            assert [item[by] for item in items] == [row["id"] for row in expected], (path, q)
    for status in ("completed", "failed", "searching"):
        rows = (await operator.get(SESSIONS, q="Indra", status=status, limit=5))["items"]
        assert {row["status"] for row in rows} <= {status}
        assert rows or status == "searching"
    await world.close()


async def test_generated_history_can_be_extended(grown: Stack) -> None:
    before = await sessions_of(grown)
    grown.command("grow", "--more", "--sessions", "400", "--messages", "2000", "--notifications", "1200")
    books = grown.command("audit").stdout
    assert books == f"{before + 400} sessions, {await payments_of(grown)} payments, 0 violations\n"
