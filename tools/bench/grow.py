"""`sesi grow`: fills a database with plausible years of use, to measure the service on a large database.

Everything happens inside PostgreSQL in one transaction. Indexes, foreign keys and triggers of the large tables are
removed, the statements of grow_sql insert the rows, and then the schema is restored and compared with the original.
This checks foreign keys and unique indexes over all rows. `sesi audit` looks for rows that the triggers would have
refused, except for messages without a session, which the statement for messages can't produce.
"""

import datetime as dt
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import asyncpg
import attrs

from core.base.progress import Report, part
from tools.bench import grow_months, grow_sql

MONTH = dt.timedelta(days=365) / 12
HANDFUL = 20  # existing sessions that are still accepted, as traces of trying things out
# How far in the future the deadlines of live sessions are. Growing takes long, and the data should be auditable before
# a timer changes it.
AHEAD = dt.timedelta(minutes=50)
# Tables that get many rows. Creating their indexes and foreign keys again is faster than maintaining them.
LARGE = (
    "customers", "auth_sessions", "otp_requests", "mitra_online_logs", "payment_requests", "chat_sessions", "session_extensions",
    "customer_transactions", "pairing_failures", "operator_audit_log", "chat_request_notifications", "chat_messages", "session_closures",
    "session_sensitivity_log", "delivery_trail", "webhook_logs",
)  # fmt: skip
# For this transaction only. One parallel worker: on a small machine, more would only compete for the processors.
TUNING = """SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '10s'; SET LOCAL jit = off; SET LOCAL work_mem = '128MB';
  SET LOCAL maintenance_work_mem = '512MB'; SET LOCAL max_parallel_maintenance_workers = 1; SET LOCAL timezone = 'UTC'"""
# Constraints and indexes to remove, as (statement that drops it, statement that creates it), in the order of creation.
# Indexes with a condition `varchar IN (…)` stay: PostgreSQL prints such a condition in a form that it reads back as a
# different one. Partitions follow their tables.
ASIDE = """SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) AS away,
    format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) AS back,
    CASE contype WHEN 'f' THEN 3 ELSE 1 END AS place FROM pg_constraint
  WHERE contype IN ('p', 'u') AND conrelid = ANY($1::text[]::regclass[])
    OR contype = 'f' AND conparentid = 0 AND (conrelid = ANY($1::text[]::regclass[]) OR confrelid = ANY($1::text[]::regclass[]))
  UNION ALL
  SELECT format('DROP INDEX %s', indexrelid::regclass), replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON '), 2 FROM pg_index
  WHERE indrelid = ANY($1::text[]::regclass[]) AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = indexrelid AND c.contype IN ('p', 'u'))
    AND coalesce(pg_get_expr(indpred, indrelid), '') NOT LIKE '%::text[])%'
  ORDER BY place, back"""
# The whole schema as text, to check that it is restored exactly. Partitions follow their tables, but PostgreSQL chooses
# the names of their indexes.
SHAPE = """WITH whole AS (SELECT oid, relname FROM pg_class WHERE NOT relispartition AND relnamespace = 'public'::regnamespace)
  SELECT array_agg(line ORDER BY line) FROM (
    SELECT format('%s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) AS line FROM pg_constraint
      WHERE connamespace = 'public'::regnamespace AND conrelid IN (SELECT oid FROM whole)
    UNION ALL SELECT format('%s valid %s', pg_get_indexdef(indexrelid), indisvalid) FROM pg_index WHERE indrelid IN (SELECT oid FROM whole)
    UNION ALL SELECT format('%s %s', pg_get_triggerdef(oid), tgenabled) FROM pg_trigger
      WHERE NOT tgisinternal AND tgrelid IN (SELECT oid FROM whole)) x"""
# At the very end: give all online mitras a fresh heartbeat.
HEARD = """UPDATE mitra_online_status SET last_heartbeat_at = clock_timestamp(), updated_at = clock_timestamp()
  WHERE is_online AND mitra_id IN (SELECT id FROM mitras WHERE phone LIKE '+6290%')"""
SIZES = """SELECT coalesce(p.relname, c.relname) AS name, sum(c.reltuples)::bigint AS rows, sum(pg_table_size(c.oid))::bigint AS heap,
    sum(pg_indexes_size(c.oid))::bigint AS indexes
  FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class p ON p.oid = i.inhparent
  WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.reltuples > 0 GROUP BY 1 ORDER BY sum(pg_total_relation_size(c.oid)) DESC"""


# For the progress, as measured with 60,000 sessions: shares of the time after the rows are inserted, of the time of the
# transaction, and how many times longer a statement about messages takes.
INSERTED, FILLED, LONG = 0.65, 0.73, 30


@attrs.frozen
class GrowthStep:
    """A statement, and what it does in words."""

    what: str
    sql: str


class NotGrown(Exception):
    """The database can't be filled; the message says why."""


@attrs.frozen(kw_only=True)
class GrowthWish:
    """The amount of data to create, and the months before now that it is spread over. `more` adds to existing
    sessions."""

    sessions: int = 1_000_000
    messages: int = 20_000_000
    notifications: int = 5_000_000
    months: int = 24
    seed: int = 1
    more: bool = False


@attrs.frozen(kw_only=True)
class Size:
    """The size of a table: its rows, its bytes (`heap`) and the bytes of its indexes."""

    name: str
    rows: int
    heap: int
    indexes: int


def mitras_for(sessions: int) -> int:
    """Return the number of mitras: one for each 400 sessions, rounded up to a prime.

    With a prime number, steps of any size through the mitras visit all of them.
    """
    number = max(23, sessions // 400)
    while any(number % part == 0 for part in range(2, int(number**0.5) + 1)):
        number += 1
    return number


def words(wish: GrowthWish, *, now: dt.datetime, customers: int, mitras: int, sessions: int) -> dict[str, str]:
    """Return the values of the words in braces in grow_sql. The last three arguments are counts of existing rows."""
    crew = mitras_for(wish.sessions)
    live = min(max(HANDFUL, wish.sessions // 500), crew)
    past = wish.sessions - live
    blocks, rest = divmod(past - 1, 5)
    return {
        "seed": str(wish.seed),
        "now": now.isoformat(),
        "ahead": (now + AHEAD).isoformat(),
        "begin": (now - wish.months * MONTH).isoformat(),
        "last_day": str(wish.months * MONTH // dt.timedelta(days=1) - 2),
        "sessions": str(wish.sessions),
        "live": str(live),
        "past": str(past),
        "mitras": str(crew),
        "customers": str(2 * blocks + (1 if rest < 2 else 2)),
        "messages": str(wish.messages),
        "notifications": str(wish.notifications),
        "customers_base": str(customers),
        "mitras_base": str(mitras),
        "sessions_base": str(sessions),
    }


async def grow(url: str, wish: GrowthWish, say: Callable[[str], None], report: Report) -> list[Size]:
    """Fill the database, reporting each finished step to `say`; return its tables, largest first. Raises NotGrown."""
    connection = await asyncpg.connect(url, timeout=5)
    try:
        there = await connection.fetchrow(
            "SELECT (SELECT count(*) FROM customers) AS customers, (SELECT count(*) FROM mitras) AS mitras, (SELECT count(*) FROM chat_sessions) AS sessions"
        )
        if there["sessions"] > HANDFUL and not wish.more:
            raise NotGrown(f"the database already has {there['sessions']} sessions: use --more to add to them")
        if wish.sessions < 10 * HANDFUL:
            raise NotGrown(f"--sessions: expected at least {10 * HANDFUL}")
        now = await connection.fetchval("SELECT clock_timestamp()")
        await connection.execute("SET temp_buffers = '256MB'")
        async with connection.transaction():
            known = words(wish, now=now, **dict(there))
            await _fill(connection, known, now - wish.months * MONTH, say, part(report, 0.0, FILLED))
        tables = (*LARGE, "mitras", "mitra_online_status", "control_center_users", "roles")
        vacuums = [GrowthStep(f"vacuum {table}", f"VACUUM (ANALYZE) {table}") for table in tables]
        await _run(connection, vacuums, say, part(report, FILLED, 1.0), from_s=1)
        await connection.execute(HEARD)
        return [Size(**dict(row)) for row in await connection.fetch(SIZES)]
    finally:
        await connection.close()


async def _fill(
    connection: Any, known: dict[str, str], begin: dt.datetime, say: Callable[[str], None], report: Report
) -> None:
    def filled(sql: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda word: known.get(word[1], word[0]), sql)

    await connection.execute(TUNING)
    await connection.execute(filled(grow_sql.FUNCTIONS))
    before = await connection.fetchval(SHAPE)
    aside = await connection.fetch(ASIDE, list(LARGE))
    for row in reversed(aside):
        await connection.execute(row["away"])
    for table in LARGE:
        await connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    await grow_months.make_past(connection, begin - MONTH)  # the requests before the first sessions
    rows = [GrowthStep(what, filled(sql)) for what, sql in (*grow_sql.PLANS, *grow_sql.ROWS)]
    await _run(connection, rows, say, part(report, 0.0, INSERTED), from_s=0)
    backs = [row["back"] for row in aside]
    schema = [GrowthStep(back.removeprefix("ALTER TABLE ").removeprefix("CREATE "), back) for back in backs]
    await _run(connection, schema, say, part(report, INSERTED, 1.0), from_s=1)
    for table in LARGE:
        await connection.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
    lost, odd = _difference(before, await connection.fetchval(SHAPE))
    if lost or odd:
        raise NotGrown(f"the schema could not be restored exactly, so nothing was changed; missing: {lost}; new: {odd}")


def _difference(before: list[str], after: list[str]) -> tuple[list[str], list[str]]:
    return sorted(set(before) - set(after)), sorted(set(after) - set(before))


async def _run(
    connection: Any, steps: Sequence[GrowthStep], say: Callable[[str], None], report: Report, *, from_s: float
) -> None:
    """Run statements, and tell `say` how long each took if that was at least `from_s` seconds."""
    weights = [LONG if "chat_messages" in step.what else 1 for step in steps]
    for number, step in enumerate(steps):
        report(sum(weights[:number]) / sum(weights), step.what[:40])
        started = time.monotonic()
        done = str(await connection.execute(step.sql)).rpartition(" ")[2]
        rows = f"{int(done):,} rows" if done.isdigit() else ""
        seconds = time.monotonic() - started
        if seconds >= from_s:
            say(f"{seconds:8.1f} s  {step.what[:100]}  {rows}".rstrip())
