"""Generated history: it violates no rule, leaves the schema as it was, and every statement of the product finds its
rows by index.
"""

import datetime as dt
from collections.abc import Iterator
from typing import Any

import asyncpg
import attrs
import pytest

from core.app.reactions import open_runtime
from core.base.id_ranges import month_of, months_after
from core.desk.audits.rules import Depth
from core.desk.ledger.audit import FIRST
from core.desk.ledger.audit_rules import rules_of
from core.desk.support import AT_MOST
from core.payments.reconciliation import store as reconciliation
from core.payments.states import PaymentStatus
from core.sessions.states import SessionStatus
from core.settings.environment import read as read_settings
from core.storage.partitions import PARTITIONED, name_of
from tests.stack import Stack, World
from tools.bench import grow, plan_calls, plans
from tools.bench.plan_watch import PlanWatch, SeenStatement

pytestmark = pytest.mark.anyio
SIZE = ("--sessions", "5000", "--messages", "25000", "--notifications", "15000")
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
    migrated.command("grow", *SIZE)
    migrated.start("api")
    return migrated


async def judged(stack: Stack, function: str) -> list[plans.Judged]:
    """Return the plans of one function that `sesi grow --plans` reports for a small database."""
    return await plans.look(read_settings(stack.env), small=True, function=function)


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
    again = grown.command("grow", *SIZE, check=False)
    assert again.returncode == 1
    assert "5000 sessions" in again.stderr
    assert "--more" in again.stderr
    refused = grown.command(
        "grow", "--more", check=False, ENVIRONMENT="production", GATEWAY_ENABLED="true", GATEWAY_BASE_URL="https://pay.example.test",
        GATEWAY_SECRET_KEY="a-secret-of-the-gateway", PUSH_SENDER="log", OTP_SENDER="log",
    )  # fmt: skip
    assert refused.returncode == 1
    assert await sessions_of(grown) == 5000


@pytest.mark.timeout(300)  # each statement is planned and run eight times, and by the command once more
async def test_every_statement_of_the_product_uses_an_index(grown: Stack) -> None:
    shares: list[float] = []
    found = await plans.look(read_settings(grown.env), small=True, report=lambda share, _: shares.append(share))
    assert (shares[0], len(shares)) == (0.0, len(set(shares)))
    bad = [f"{one.seen.case}: {one.fault}: {one.seen.sql}" for one in found if one.fault and not one.reason]
    assert bad == []
    called = {one.seen.case.partition(" (")[0] for one in found}
    wanted = {f"{function.__module__}.{function.__name__}" for function in plan_calls.functions()}
    assert wanted - called == set(plan_calls.LEFT_OUT)
    done = grown.command("grow", "--plans", check=False)
    assert f"{len(found)} statements, " in done.stdout


async def test_every_cheap_rule_of_the_audit_reads_open_work_only(grown: Stack) -> None:
    """They run every minute. Each reads by an index and at most as much as there is open work, in every month."""
    runtime = await open_runtime(read_settings(grown.env), pool_size=2)
    connection = await asyncpg.connect(grown.database_url)
    try:
        async with connection.transaction():
            await connection.execute(plans.ONLY_WHERE_NEEDED)
            watch = await PlanWatch.open(connection, big=plans.SMALL)
            for rule in rules_of(Depth.CHEAP):
                watch.case = rule.name
                args = () if rule.arguments is None else rule.arguments(runtime, runtime.now())
                await watch.fetch(FIRST.format(rule=rule.sql), *(args or ()))
        (row,) = await connection.fetch(OPEN_WORK)
    finally:
        await connection.close()
        await runtime.close()
    found = list(watch.seen.values())
    assert len(found) == len(rules_of(Depth.CHEAP))
    assert {seen.case: seen.scans for seen in found if seen.scans} == {}
    assert {seen.case: seen.read for seen in found if seen.read > row["open_work"]} == {}


@pytest.mark.parametrize("page", ["first", "second"])
async def test_comparison_with_the_gateway_reads_no_older_requests(grown: Stack, page: str) -> None:
    connection = await asyncpg.connect(grown.database_url)
    try:
        async with connection.transaction():
            await connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            watch = await PlanWatch.open(connection, big=plans.SMALL)
            watch.case = "two days"
            since = await connection.fetchval("SELECT max(created_at) FROM payment_requests") - dt.timedelta(days=2)
            found = await reconciliation.requests_since(connection, since)
            after = None if page == "first" else found[0]
            assert await reconciliation.requests_since(watch, since, after=after) == found[0 if after is None else 1 :]
    finally:
        await connection.close()
    (seen,) = watch.seen.values()
    assert 1 < len(found) <= seen.read < 5 * len(found)


async def test_missing_index_is_reported(grown: Stack) -> None:
    (index,) = await grown.sql("SELECT indexdef FROM pg_indexes WHERE indexname = 'pairing_failures_payment'")
    await grown.sql("DROP INDEX pairing_failures_payment")
    try:
        found = await judged(grown, "core.desk.timeline.timeline.timeline")
        faults = {(one.seen.home, one.fault) for one in found if one.fault}
        assert ("core.desk.timeline.timeline.timeline", "reads all of pairing_failures") in faults
    finally:
        await grown.sql(index["indexdef"])


async def test_empty_month_may_be_read_as_a_whole(grown: Stack) -> None:
    connection = await asyncpg.connect(grown.database_url)
    try:
        watch = await PlanWatch.open(connection, big=plans.SMALL)
    finally:
        await connection.close()
    (newest,) = await grown.sql("SELECT tableoid::regclass::text AS name FROM chat_messages ORDER BY id DESC LIMIT 1")
    (coming,) = await grown.sql(
        """SELECT relname AS name FROM pg_class
           WHERE relkind = 'r' AND relname LIKE 'chat\\_messages\\_20%' ORDER BY relname DESC LIMIT 1"""
    )
    assert (newest["name"] in watch.large, coming["name"] in watch.large) == (True, False)


async def test_statement_that_reads_every_month_is_reported(grown: Stack) -> None:
    connection = await asyncpg.connect(grown.database_url)
    try:
        async with connection.transaction():
            await connection.execute(plans.ONLY_WHERE_NEEDED)
            watch = await PlanWatch.open(connection, big=plans.SMALL)
            watch.case = "a case"
            session = await watch.fetchval(
                "SELECT id FROM chat_sessions WHERE last_seq > 0 ORDER BY created_at LIMIT 1"
            )
            message = await watch.fetchval("SELECT id FROM chat_messages WHERE session_id = $1 LIMIT 1", session)
            await watch.fetch("SELECT seq FROM chat_messages WHERE id = $1", message)
            await watch.fetch("SELECT seq FROM chat_messages WHERE id = $1 AND session_id = $2", message, session)
    finally:
        await connection.close()
    found = [plans.judge(seen) for seen in watch.seen.values() if "seq FROM" in seen.sql]
    assert [one.seen.months for one in found] == [
        {"chat_messages": found[0].seen.months["chat_messages"]},
        {"chat_messages": 1},
    ]
    assert found[0].seen.months["chat_messages"] >= 25
    seen = attrs.evolve(found[0].seen, scans=())
    assert plans.judge(seen).fault == f"reads {seen.months['chat_messages']} months of chat_messages"
    assert plans.judge(seen).reason is None
    assert found[1].fault is None


def test_plan_call_without_a_value_for_a_parameter_raises() -> None:
    caller = object.__new__(plan_calls.Caller)
    caller.by_name, caller.by_type, caller.now = {}, {}, dt.datetime.now(dt.UTC)
    assert caller.value("answer", str | None) is None
    with pytest.raises(plan_calls.NoArgument, match="unheard_of_id"):
        caller.value("unheard_of_id", complex)


def test_statement_that_reads_many_rows_needs_a_stated_reason() -> None:
    plain = SeenStatement(
        home="core.desk.activity.summary", case="core.desk.activity.summary", sql="", nodes="", cost=1
    )
    assert plans.judge(plain).fault is None
    much = attrs.evolve(plain, read=plans.MUCH + 1)
    assert plans.judge(much).reason is None
    assert plans.judge(attrs.evolve(much, case="core.desk.activity.summary (30 days)")).reason is not None
    assert plans.judge(attrs.evolve(plain, ms=plans.SLOW_MS + 1)).fault == "takes 251 ms"


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
