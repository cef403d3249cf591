"""Observation of the product's statements: each one is planned, tried eight times, and then run.

There is one connection with one transaction that is rolled back at the end. All statements that core runs on it, as
`Tx` or as `Database`, pass through `PlanWatch`. asyncpg keeps statements prepared, and from the sixth run on PostgreSQL
may use a generic plan. So a statement is tried eight times, and the fastest of the last three runs is reported.
PostgreSQL itself counts scans, so those inside functions and triggers are included. Reading an index from end to end
counts as a scan, too; that is found in the plan. A partition counts as read if one of its scans began: in the words of
EXPLAIN, it was neither removed by the planner, nor among the "Subplans Removed", nor "never executed".
"""

import contextlib
import datetime as dt
import json
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import asyncpg
import attrs

from core.base.id_ranges import first_id
from core.storage.database import Database
from core.storage.transaction import RELEASE, ROLL_BACK, SAVEPOINT, Tx

BIG = 100_000  # rows; a smaller table may be read as a whole
TRIES = 8
TOLD = 3  # the last of them, which are reported; the first five are planned again each time
# Scans and rows read so far in this transaction, without and with an index.
READ = """SELECT relname, seq_scan, seq_tup_read, coalesce(idx_scan, 0) AS looked, coalesce(idx_tup_fetch, 0) AS fetched
  FROM pg_stat_xact_user_tables WHERE seq_scan > 0 OR idx_scan > 0"""
# Tables with many rows; a partition counts if it has rows, and all partitions of its table together have many. An empty
# one is read as a whole, because that costs nothing.
LARGE_TABLES = """SELECT relname FROM (
    SELECT c.relname, pg_relation_size(c.oid) AS bytes, sum(c.reltuples) OVER (PARTITION BY coalesce(i.inhparent, c.oid)) AS tuples
    FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace) x
  WHERE tuples > $1 AND bytes > 0"""
# Each partition with its table. Those of coming months are empty and cost a look; they are left out.
MONTHS = r"""SELECT c.relname AS name, p.relname AS of FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
  WHERE p.relkind = 'p' AND coalesce(substring(pg_get_expr(c.relpartbound, c.oid) FROM $$FROM \('([0-9a-f-]{36})$$), '') <= $1::text"""
# Indexes over all rows of big tables.
WHOLE = """SELECT indexrelid::regclass::text AS name, t.relname AS of FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
  WHERE i.indpred IS NULL AND t.relkind = 'r' AND t.relnamespace = 'public'::regnamespace AND t.reltuples > $1"""
# Nodes that read all rows below them, whatever is above.
GATHERS = ("Sort", "Aggregate", "Hash", "WindowAgg", "ModifyTable")


@attrs.define(kw_only=True)
class SeenStatement:
    """A statement of the product. `scans`: big tables that it reads as a whole. `read`: rows that one run reads.

    `months`: how many partitions it reads of each partitioned table, in all its runs together.
    `ms`: time of a run, including the round trip; None if the database refused it, such as a duplicate row.
    """

    home: str
    case: str
    sql: str
    nodes: str
    cost: float
    rows: int = 0
    read: int = 0
    ms: float | None = None
    generic: bool = False
    scans: tuple[str, ...] = ()
    months: dict[str, int] = attrs.field(factory=dict)


@attrs.frozen
class Reads:
    """Scans of a table as a whole, scans of its indexes, and the rows that both have read."""

    scans: int = 0
    looks: int = 0
    rows: int = 0

    def __sub__(self, earlier: "Reads") -> "Reads":
        return Reads(self.scans - earlier.scans, self.looks - earlier.looks, self.rows - earlier.rows)


class PlanWatch:
    """A connection that plans and tries each statement before it runs it."""

    def __init__(self, connection: Any, large: frozenset[str], whole: dict[str, str], months: dict[str, str]) -> None:
        self.connection = connection
        self.months = months
        self.large = large
        self.whole = whole
        self.seen: dict[tuple[str, str], SeenStatement] = {}
        self.case = ""

    @classmethod
    async def open(cls, connection: Any, *, big: int = BIG) -> "PlanWatch":
        """Watch a connection that is in a transaction. Tables with more than `big` rows must not be read as a whole."""
        large = frozenset(row["relname"] for row in await connection.fetch(LARGE_TABLES, big))
        whole = {row["name"]: row["of"] for row in await connection.fetch(WHOLE, big)}
        months = dict(await connection.fetch(MONTHS, first_id(await connection.fetchval("SELECT now()"))))
        return cls(connection, large, whole, months)

    async def fetch(self, sql: str, *args: Any, timeout: float | None = None) -> list[Any]:
        """Run a statement and return its rows."""
        await self._look(sql, args)
        return await self.connection.fetch(sql, *args, timeout=timeout)

    async def fetchrow(self, sql: str, *args: Any, timeout: float | None = None) -> Any:
        """Run a statement and return its first row, or None."""
        await self._look(sql, args)
        return await self.connection.fetchrow(sql, *args, timeout=timeout)

    async def fetchval(self, sql: str, *args: Any, timeout: float | None = None) -> Any:
        """Run a statement and return the first column of its first row, or None."""
        await self._look(sql, args)
        return await self.connection.fetchval(sql, *args, timeout=timeout)

    async def execute(self, sql: str, *args: Any, timeout: float | None = None) -> str:
        """Run a statement and return its status."""
        if sql not in (SAVEPOINT, RELEASE, ROLL_BACK):
            await self._look(sql, args)
        return await self.connection.execute(sql, *args, timeout=timeout)

    async def _look(self, sql: str, args: tuple[Any, ...]) -> None:
        key = (self.case, " ".join(sql.split()))
        if key in self.seen:
            return
        found = self.seen[key] = SeenStatement(home=_home(), case=self.case, sql=key[1], nodes="", cost=0)
        plan = await self._explain(sql, args)
        found.nodes, found.cost = " · ".join(_nodes(plan)), plan["Total Cost"]
        with contextlib.suppress(asyncpg.PostgresError):
            await self._try(found, sql, args)
        if found.generic:
            plan = await self._generic(sql, len(args))
            found.nodes, found.cost = " · ".join(_nodes(plan)), plan["Total Cost"]
        walked = {self.whole[index] for index in _walked(plan) if index in self.whole}
        found.scans = tuple(sorted({*found.scans, *walked}))

    async def _explain(self, sql: str, args: tuple[Any, ...]) -> dict[str, Any]:
        answer = await self.connection.fetchval(f"EXPLAIN (FORMAT JSON) {sql}", *args)
        return json.loads(answer)[0]["Plan"]

    async def _generic(self, sql: str, count: int) -> dict[str, Any]:
        """Return the generic plan, which does not depend on the parameters."""
        connection = self.connection
        await connection.execute(f"PREPARE watched AS {sql}")
        await connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        try:
            values = f"({', '.join(['NULL'] * count)})" if count else ""
            return json.loads(await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE watched{values}"))[0]["Plan"]
        finally:
            await connection.execute("SET LOCAL plan_cache_mode = auto")
            await connection.execute("DEALLOCATE watched")

    async def _try(self, found: SeenStatement, sql: str, args: tuple[Any, ...]) -> None:
        async with kept_out(self.connection):
            before = await self._read()
            prepared = await self.connection.prepare(sql)
            rows: list[Any] = []
            spent: list[float] = []
            for _ in range(TRIES):
                async with kept_out(self.connection):
                    started = time.perf_counter()
                    rows = await prepared.fetch(*args)
                    spent.append((time.perf_counter() - started) * 1000)
            after = await self._read()
            found.generic = bool(
                await self.connection.fetchval(
                    "SELECT generic_plans > 0 FROM pg_prepared_statements WHERE name = $1", prepared.get_name()
                )
            )
        found.ms, found.rows = min(spent[-TOLD:]), len(rows)
        spent_on = {name: after[name] - before.get(name, Reads()) for name in after}
        found.read = sum(one.rows for one in spent_on.values()) // TRIES
        found.scans = tuple(sorted(name for name, one in spent_on.items() if name in self.large and one.scans > 0))
        read = [
            self.months[name] for name, one in spent_on.items() if name in self.months and one.scans + one.looks > 0
        ]
        found.months = {table: read.count(table) for table in sorted(set(read))}

    async def _read(self) -> dict[str, Reads]:
        return {row[0]: Reads(row[1], row[3], row[2] + row[4]) for row in await self.connection.fetch(READ)}


@contextlib.asynccontextmanager
async def kept_out(connection: Any) -> AsyncIterator[None]:
    """Roll back what the block does, however it ends."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()


class WatchedDatabase(Database):
    """The product's database on one watched connection. Writes are rolled back after each call."""

    def __init__(self, url: str, watch: PlanWatch) -> None:
        super().__init__(url)  # does not open its pool
        self.watch = watch

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        """Run a query and return its rows."""
        return await self.watch.fetch(sql, *args)

    async def fetch_once(self, sql: str, *args: Any) -> list[Any]:
        """Run a statement and return its rows."""
        return await self.watch.fetch(sql, *args)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Yield the watched connection."""
        yield self.watch

    @contextlib.asynccontextmanager
    async def transaction(self, clock: Callable[[], dt.datetime]) -> AsyncIterator[Tx]:
        """Yield a transaction inside the one that is rolled back."""
        yield Tx(self.watch, clock)


def _home() -> str:
    """Return the name of the function of core that runs the statement, outside core.storage."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("core.") and not module.startswith("core.storage"):
            return f"{module}.{frame.f_code.co_name}"
        frame = frame.f_back
    return "?"


def _nodes(plan: dict[str, Any], depth: int = 0) -> Iterator[str]:
    """Yield the nodes of a plan that show how it finds its rows, from the top."""
    where = plan.get("Index Name") or plan.get("Relation Name") or plan.get("Function Name")
    if where or depth == 0:
        kind = re.sub(r"(\w+ )?(Scan|Only Scan)$", r"\1\2", plan["Node Type"])
        yield f"{kind} {where}" if where else kind
    for part in plan.get("Plans", []):
        yield from _nodes(part, depth + 1)


def _walked(plan: dict[str, Any], *, limited: bool = False) -> Iterator[str]:
    """Yield the indexes that a plan reads without a condition, unless a LIMIT above stops after the first rows."""
    kind = plan["Node Type"]
    if kind in ("Index Scan", "Index Only Scan") and "Index Cond" not in plan and not limited:
        yield plan["Index Name"]
    limited = kind == "Limit" or (limited and kind not in GATHERS and "Subplan Name" not in plan)
    for part in plan.get("Plans", []):
        yield from _walked(part, limited=limited)
