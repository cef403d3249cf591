"""The migrations create exactly the declared tables."""

import datetime as dt
import importlib
import importlib.util
import json
import re
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import asyncpg
import attrs
import pytest
from piccolo.columns.defaults.timestamptz import TimestamptzNow
from piccolo.constraints import Unique

from core.desk.timed_work import TIMED
from core.payments.failures.causes import CauseTag
from core.storage.partitions import PARTITIONED
from core.storage.table_list import CONCEPTS, declared_tables
from tests.stack import Stack, World, new_id
from tools.checks.schema_drift import changed_checks, declared_checks
from tools.checks.state_triggers import TRIGGERS, StateTrigger, edges_in

pytestmark = pytest.mark.anyio
# Columns with type, nullability and default.
COLUMNS = """SELECT column_name, udt_name, character_maximum_length, is_nullable, column_default
  FROM information_schema.columns WHERE table_schema = 'public' AND table_name = $1"""
# The classes of a record's values; str for all other types.
VALUES = {
    "INTEGER": int, "BIGINT": int, "BOOLEAN": bool, "TIMESTAMPTZ": dt.datetime, "BYTEA": bytes, "JSONB": dict, "TEXT[]": list,
}  # fmt: skip
FOREIGN_KEYS = """SELECT a.attname, c.confrelid::regclass::text,
    CASE c.confdeltype WHEN 'r' THEN 'RESTRICT' WHEN 'n' THEN 'SET NULL' WHEN 'c' THEN 'CASCADE' END
  FROM pg_constraint c
  JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey)
  WHERE c.conrelid = $1::regclass AND c.contype = 'f'"""
# Columns that reference a table and begin no index. An index may leave out rows without a value.
UNINDEXED = """SELECT c.conrelid::regclass::text AS "table", a.attname
  FROM pg_constraint c
  JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
  WHERE c.confrelid = $1::regclass AND c.contype = 'f' AND NOT EXISTS (
    SELECT 1 FROM pg_index i WHERE i.indrelid = c.conrelid AND i.indkey[0] = c.conkey[1] AND i.indisvalid
      AND (i.indpred IS NULL OR pg_get_expr(i.indpred, i.indrelid) = format('(%s IS NOT NULL)', a.attname)))"""
UNIQUES = """SELECT ARRAY(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY k(number, place)
    JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.number ORDER BY k.place) AS columns
  FROM pg_constraint c
  WHERE c.conrelid = $1::regclass AND c.contype IN ('u', 'p')"""
TABLES = """SELECT relname FROM pg_class
  WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition"""
PARTITIONED_BY = """SELECT c.relname, a.attname FROM pg_partitioned_table p JOIN pg_class c ON c.oid = p.partrelid
  JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = ANY (p.partattrs::int2[]) WHERE p.partstrat = 'r'"""
TYPES = {
    "UUID": "uuid", "INTEGER": "int4", "BOOLEAN": "bool", "TEXT": "text", "TIMESTAMPTZ": "timestamptz",
    "BIGINT": "int8", "JSONB": "jsonb", "BYTEA": "bytea", "TEXT[]": "_text", "UUID[]": "_uuid",
}  # fmt: skip


async def test_database_has_every_column_as_declared(stack: Stack) -> None:
    for table in declared_tables():
        found = {row["column_name"]: row for row in await stack.sql(COLUMNS, table._meta.tablename)}
        names = {column._meta.db_column_name for column in table._meta.columns}
        assert set(found) == names, table._meta.tablename
        for column in table._meta.columns:
            row = found[column._meta.db_column_name]
            where = f"{table._meta.tablename}.{column._meta.db_column_name}"
            kind = column.column_type
            if kind.startswith("VARCHAR"):
                assert row["udt_name"] == "varchar", where
                assert f"VARCHAR({row['character_maximum_length']})" == kind, where
            else:
                assert row["udt_name"] == TYPES[kind], where
            assert (row["is_nullable"] == "YES") == column._meta.null, where


async def test_database_has_only_declared_tables(stack: Stack) -> None:
    rows = await stack.sql(TABLES)
    assert {row["relname"] for row in rows} == {t._meta.tablename for t in declared_tables()} | {"migration"}


async def test_view_of_timed_work_has_the_kinds_that_are_declared(stack: Stack) -> None:
    """Database functions say when the two kinds about silent mitras are due."""
    (row,) = await stack.sql("SELECT pg_get_viewdef('timed_work'::regclass) AS text")
    kinds = re.findall(r"SELECT '(\w+)'::text", row["text"])
    assert sorted(kinds) == sorted({one.kind for one in TIMED} - {"stale", "presence_check"})


async def test_database_has_every_check_constraint_as_declared(stack: Stack) -> None:
    async with stack.transaction() as connection:
        assert await changed_checks(connection, declared_checks(declared_tables())) == []


async def test_database_has_every_foreign_key_as_declared(stack: Stack) -> None:
    for table in declared_tables():
        rows = await stack.sql(FOREIGN_KEYS, f"public.{table._meta.tablename}")
        assert {tuple(row) for row in rows} == {
            (
                column._meta.db_column_name,
                column._foreign_key_meta.resolved_references._meta.tablename,
                column._foreign_key_meta.on_delete.value,
            )
            for column in table._meta.foreign_key_columns
        }, table._meta.tablename


async def test_each_reference_to_a_customer_has_an_index(stack: Stack) -> None:
    """Customers are deleted by the thousand, and each deletion looks for rows that reference the customer."""
    references = await stack.sql("SELECT 1 FROM pg_constraint WHERE confrelid = 'customers'::regclass")
    assert len(references) >= 4
    assert await stack.sql(UNINDEXED, "customers") == []


async def test_database_has_every_unique_constraint_as_declared(stack: Stack) -> None:
    for table in declared_tables():
        rows = await stack.sql(UNIQUES, f"public.{table._meta.tablename}")
        single = [
            [*month_of(table, c), c._meta.db_column_name]
            for c in table._meta.columns
            if c._meta.unique or c._meta.primary_key
        ]
        several = [one.get_column_names() for one in table._meta.constraints if isinstance(one, Unique)]
        assert sorted(row["columns"] for row in rows) == sorted(single + several), table._meta.tablename


def month_of(table: Any, column: Any) -> list[str]:
    """Return the column that decides a row's partition, which each of its unique constraints contains."""
    key = PARTITIONED.get(table._meta.tablename)
    return [] if key is None or key == column._meta.db_column_name else [key]


async def test_database_partitions_the_declared_tables_by_month(stack: Stack) -> None:
    assert dict(await stack.sql(PARTITIONED_BY)) == dict(PARTITIONED)


async def test_database_has_every_default_as_declared(stack: Stack) -> None:
    for table in declared_tables():
        found = {row["column_name"]: row["column_default"] for row in await stack.sql(COLUMNS, table._meta.tablename)}
        for column in table._meta.columns:
            where = f"{table._meta.tablename}.{column._meta.db_column_name}"
            assert found[column._meta.db_column_name] in defaults_of(column), where


def defaults_of(column: Any) -> tuple[str | None, ...]:
    """Return the texts that PostgreSQL may show for a column's default."""
    match column.default:
        case None:
            return (None,)
        case TimestamptzNow():
            return ("CURRENT_TIMESTAMP", "now()")
        case bool() | int() as value:
            return (str(value).lower(),)
        case str() as value:
            kind = {"TEXT": "text", "JSONB": "jsonb"}.get(column.column_type, "character varying")
            return (f"'{value}'::{kind}",)
    raise AssertionError(f"no text for the default {column.default!r}")


def test_records_of_stores_have_the_types_of_their_columns() -> None:
    found = [fault for record, table in records() for fault in faults_of(record, table)]
    assert found == []


def records() -> Iterator[tuple[type[Any], Any]]:
    """Yield each attrs class of a store whose fields are columns of a table of its concept, with that table."""
    for concept in CONCEPTS:
        store = importlib.util.find_spec(f"core.{concept}.store")
        classes = vars(importlib.import_module(store.name)).values() if store else ()
        for record in classes:
            if not isinstance(record, type) or not attrs.has(record) or record.__module__ != f"core.{concept}.store":
                continue
            fields = set(attrs.fields_dict(record))
            for table in declared_tables():
                if table.__module__ == f"core.{concept}.tables" and fields <= {
                    c._meta.name for c in table._meta.columns
                }:
                    yield record, table


def faults_of(record: type[Any], table: Any) -> Iterator[str]:
    """Yield the fields of a record whose type does not fit its column."""
    hints = get_type_hints(record)
    for field in attrs.fields(record):
        column, hint = table._meta.get_column_by_name(field.name), hints[field.name]
        choices = set(get_args(hint)) if get_origin(hint) in (Union, types.UnionType) else {hint}
        if (types.NoneType in choices) != column._meta.null:
            yield f"{record.__name__}.{field.name}: the column may {'' if column._meta.null else 'not '}be null"
        for choice in choices - {types.NoneType}:
            if not issubclass(class_of(choice), VALUES.get(column.column_type, str)):
                yield f"{record.__name__}.{field.name}: {choice} for {column.column_type}"


def class_of(hint: Any) -> type[Any]:
    """Return the class of the values of a type: str for a Literal of words and for a type of ids."""
    while hasattr(hint, "__supertype__") or get_origin(hint) is Annotated:
        hint = getattr(hint, "__supertype__", None) or get_args(hint)[0]
    if get_origin(hint) is Literal:
        return type(get_args(hint)[0])
    return get_origin(hint) or hint


async def test_column_defaults_equal_the_documented_ones(stack: Stack) -> None:
    expected = {
        ("customers", "is_anonymous"): "true",
        ("mitras", "is_active"): "false",
        ("control_center_users", "password_hash"): "''::character varying",
        ("control_center_users", "failed_login_count"): "0",
        ("roles", "permissions"): "'{}'::jsonb",
        ("mitra_online_status", "is_online"): "false",
        ("chat_sessions", "status"): "'searching'::character varying",
        ("chat_sessions", "price"): "0",
        ("chat_sessions", "is_first_session_discount"): "false",
        ("chat_sessions", "extended_minutes"): "0",
        ("chat_sessions", "topic_sensitivity"): "'regular'::character varying",
        ("chat_request_notifications", "active_session_count"): "0",
        ("chat_messages", "type"): "'text'::character varying",
        ("chat_messages", "status"): "'sent'::character varying",
        ("session_extensions", "status"): "'pending'::character varying",
        ("customer_transactions", "amount"): "0",
        ("otp_requests", "attempts"): "0",
        ("payment_requests", "amount"): "0",
        ("payment_requests", "is_first_session_discount"): "false",
        ("payment_requests", "is_extension"): "false",
        ("payment_requests", "mode"): "'chat'::text",
        ("payment_requests", "status"): "'pending'::text",
    }
    for (table, name), default in expected.items():
        rows = {row["column_name"]: row["column_default"] for row in await stack.sql(COLUMNS, table)}
        assert rows[name] == default, f"{table}.{name}"


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda trigger: trigger.name)
async def test_trigger_allows_exactly_the_declared_state_changes(stack: Stack, trigger: StateTrigger) -> None:
    rows = await stack.sql(
        """SELECT pg_get_functiondef(tgfoid) AS function, pg_get_triggerdef(oid) AS definition FROM pg_trigger
           WHERE tgname = $1 AND tgrelid = $2::regclass""",
        trigger.name, trigger.table,
    )  # fmt: skip
    (row,) = rows
    found = edges_in(row["function"])
    assert len(found) == len(set(found))
    assert set(found) == {(before.value, after.value) for before, after in trigger.edges}
    assert f"BEFORE UPDATE OF {trigger.columns} ON public.{trigger.table}" in row["definition"]


async def test_configuration_is_seeded_with_the_documented_values(stack: Stack) -> None:
    rows = await stack.sql(  # other tests may have changed a row: then its first change holds the seeded value
        """SELECT c.key, coalesce(first.before, c.value) AS value FROM app_config c LEFT JOIN LATERAL (
             SELECT before FROM operator_audit_log WHERE object_id = c.key ORDER BY created_at, id LIMIT 1) first ON true"""
    )
    seeded = {row["key"]: json.loads(row["value"]) for row in rows}
    expected = {
        "max_customers_per_mitra": 3, "otp_max_per_ip_per_hour": 10, "mitra_stale_after_seconds": 45,
        "payment_session_timeout_minutes": 20, "returning_chat_confirmation_timeout_seconds": 20,
        "extension_timeout_seconds": 60, "extension_default_action_on_timeout": "auto_approve",
        "three_minute_warning_enabled": True, "free_trial_duration_minutes": 5,
    }  # fmt: skip
    assert {key: seeded[key] for key in expected} == {key: {"value": value} for key, value in expected.items()}


async def test_cause_tags_are_seeded(stack: Stack) -> None:
    assert {row["tag"] for row in await stack.sql("SELECT tag FROM cause_tags")} == set(CauseTag)


async def test_message_needs_its_session_and_prevents_its_deletion(world: World) -> None:
    sessions = [await world.session(await world.customer(), await world.mitra()) for _ in range(2)]
    customer, mitra = await world.customer(), await world.mitra()
    chatting = await world.session(customer, mitra)
    socket = await customer.open("chat")
    message = await socket.say(chatting, "halo")
    copy = """INSERT INTO chat_messages (id, session_id, seq, sender_type, sender_id, client_message_id, content)
      SELECT gen_random_uuid(), $2, n, sender_type, sender_id, gen_random_uuid(), content
      FROM chat_messages, generate_series(1, 3) AS n WHERE id = $1"""
    gone = new_id()
    for sql, *values in (
        (copy, message["id"], gone),
        ("UPDATE chat_messages SET session_id = $2 WHERE id = $1", message["id"], sessions[0]),
        ("DELETE FROM chat_sessions WHERE id = $1", chatting),
        ("UPDATE chat_sessions SET id = $2 WHERE id = $1", chatting, gone),
    ):
        with pytest.raises(asyncpg.ForeignKeyViolationError):
            await world.stack.sql(sql, *values)
    await check_that_truncate_is_refused(world)
    assert await world.stack.sql("SELECT 1 FROM chat_messages WHERE session_id = $1", gone) == []
    assert len(await world.stack.sql("SELECT 1 FROM chat_messages WHERE session_id = $1", chatting)) == 1


async def check_that_truncate_is_refused(world: World) -> None:
    """Check it in transactions that are rolled back. A statement of the service may meet the locks in another order, so
    there may be a deadlock, which says nothing about the refusal."""
    refusals = (asyncpg.ForeignKeyViolationError, asyncpg.DeadlockDetectedError)
    while True:
        async with world.stack.transaction() as connection:
            # The ledger's trigger would refuse it first.
            await connection.execute("ALTER TABLE customer_transactions DISABLE TRIGGER ledger_is_append_only")
            with pytest.raises(refusals) as caught:
                await connection.execute("TRUNCATE chat_sessions CASCADE")
        if caught.type is not asyncpg.DeadlockDetectedError:
            return
