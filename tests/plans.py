"""The plans of statements: what each one has read of a database with a history of two years.

`pytest --grown DIR` gives each service such a database, and its processes a role for which the server writes the plan of
every statement into its log (auto_explain), those inside functions and triggers too. The logs are kept in DIR.
tests/tools/test_plans.py runs some folders of tests so, and judges what their statements have read.
"""

import contextlib
import datetime as dt
import json
import pathlib
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import attrs

from core.storage.partitions import PARTITIONED
from tools.bench import grow

GROWTH = ("grow", "--sessions", "5000", "--messages", "25000", "--notifications", "15000")
ROLE = "explained"
# Settings of a session. In a database of this size a scan is often the fastest plan, so there is one only where no index
# helps.
EXPLAINING = {
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_nested_statements": "on",
    "auto_explain.log_format": "json",
    "auto_explain.log_parameter_max_length": "0",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
PLAN = re.compile(r"duration: [\d.]+ ms  plan:\s*")
MONTH = re.compile(r"(\w+?)_(?:before_)?\d{4}_\d\d")  # a partition, with the name of its table
FEW = 50  # rows of a table or a partition that one run may read as a whole
MUCH = 2_500  # rows that one run may read
FEW_MONTHS = 3  # partitions of a table that one run may read: those of 31 days, with a day or a search before them
SCANS = ("Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Heap Scan", "Tid Scan")
# Nodes that read all rows below them, whatever is above.
GATHERS = ("Sort", "Aggregate", "Hash", "WindowAgg", "ModifyTable")


@attrs.frozen(kw_only=True)
class TableRead:
    """What one node of a plan has read of a table: `rows` in all its runs, None if it was only planned.

    `index` is its name, or None. `is_whole`: it reads the table or the index from end to end.
    """

    table: str
    partition: str
    index: str | None
    rows: int | None
    is_whole: bool


@attrs.frozen
class SeenPlan:
    """A statement with the plan of one run."""

    sql: str
    reads: tuple[TableRead, ...]

    @property
    def rows(self) -> int:
        """Return how many rows the statement has read of tables that grow."""
        return sum(read.rows or 0 for read in self.reads if read.table in grow.LARGE)

    @property
    def scans(self) -> list[str]:
        """Return the growing tables that the statement reads as a whole: more than FEW rows, if it ran."""
        return sorted(
            {r.table for r in self.reads if r.table in grow.LARGE and r.is_whole and (r.rows is None or r.rows > FEW)}
        )

    @property
    def months(self) -> dict[str, int]:
        """Return how many partitions the statement has read of each partitioned table; those of coming months are empty."""
        coming = dt.datetime.now(dt.UTC).strftime("%Y_%m~")
        seen = {
            (read.table, read.partition)
            for read in self.reads
            if read.rows is not None and read.partition[-7:] < coming
        }
        return {table: sum(one == table for one, _ in seen) for table in PARTITIONED}


def fault(plan: SeenPlan) -> str | None:
    """Return what a statement reads too much of, or None."""
    if plan.scans:
        return f"reads all of {', '.join(plan.scans)}"
    if many := [f"{count} months of {table}" for table, count in plan.months.items() if count > FEW_MONTHS]:
        return f"reads {', '.join(many)}"
    return f"reads {plan.rows:,} rows" if plan.rows > MUCH else None


def seen_plan(logged: dict[str, Any]) -> SeenPlan:
    """Return the statement and the plan of an entry of auto_explain."""
    return SeenPlan(" ".join(logged["Query Text"].split()), tuple(_reads(logged["Plan"])))


def _reads(node: dict[str, Any], *, limited: bool = False) -> Iterator[TableRead]:
    """Yield what a node and those below it read. `limited`: a LIMIT above stops after the first rows."""
    kind, loops = node["Node Type"], node.get("Actual Loops")
    if kind in SCANS and loops != 0:
        partition = node["Relation Name"]
        month = MONTH.fullmatch(partition)
        dropped = sum(node.get(f"Rows Removed by {why}", 0) for why in ("Filter", "Index Recheck"))
        yield TableRead(
            table=month[1] if month else partition,
            partition=partition,
            index=node.get("Index Name"),
            rows=None if loops is None else round((node["Actual Rows"] + dropped) * loops),
            is_whole=kind == "Seq Scan" or (kind.startswith("Index") and "Index Cond" not in node and not limited),
        )
    limited = kind == "Limit" or (limited and kind not in GATHERS and "Subplan Name" not in node)
    for part in node.get("Plans", []):
        yield from _reads(part, limited=limited)


def of_log(path: pathlib.Path) -> Iterator[SeenPlan]:
    """Yield the plans in a server's log."""
    text, decoder = path.read_text(errors="replace"), json.JSONDecoder()
    for begin in PLAN.finditer(text):
        yield seen_plan(decoder.raw_decode(text, begin.end())[0])


async def make_role(url: str) -> None:
    """Make the role whose statements the server explains. No process runs the nightly audit, which reads all rows."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f"CREATE ROLE {ROLE} SUPERUSER LOGIN")
        for name, value in {"session_preload_libraries": "auto_explain", **EXPLAINING}.items():
            await connection.execute(f"ALTER ROLE {ROLE} SET {name} = '{value}'")
        await connection.execute(
            "INSERT INTO cluster_leases (name, done_real_at) VALUES ('audit full', now() + interval '1 year')"
        )
    finally:
        await connection.close()


def of_role(url: str) -> str:
    """Return the URL of a database with the role of `make_role`."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"{ROLE}@{parts.netloc.rpartition('@')[2]}").geturl()


PLANNED = """CREATE OR REPLACE FUNCTION pg_temp.planned(statement text) RETURNS json LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN EXECUTE 'EXPLAIN (GENERIC_PLAN, FORMAT JSON) ' || statement INTO plan; RETURN plan; END $$"""


async def planned(connection: asyncpg.Connection, sql: str) -> SeenPlan:
    """Return the generic plan of a statement, which is not run."""
    async with connection.transaction():
        for name, value in EXPLAINING.items():
            if name.startswith("enable_"):
                await connection.execute(f"SET LOCAL {name} = '{value}'")
        await connection.execute(PLANNED)
        (entry,) = json.loads(await connection.fetchval("SELECT pg_temp.planned($1)", sql))
    return seen_plan({"Query Text": sql, "Plan": entry["Plan"]})


@contextlib.asynccontextmanager
async def explained(connection: asyncpg.Connection) -> AsyncIterator[list[SeenPlan]]:
    """Yield the plans of what the connection runs in this block, in a transaction that is rolled back.

    The server sends the plan of a statement when it begins the next one, so read the list after the block.
    """
    seen: list[SeenPlan] = []

    def hear(_: Any, said: asyncpg.PostgresLogMessage) -> None:
        begin = PLAN.match(said.message)
        if begin is not None:
            seen.append(seen_plan(json.loads(said.message[begin.end() :])))

    await connection.execute("LOAD 'auto_explain'")
    transaction = connection.transaction()
    await transaction.start()
    try:
        for name, value in {"client_min_messages": "log", **EXPLAINING}.items():
            await connection.execute(f"SET LOCAL {name} = '{value}'")
        seen.clear()
        connection.add_log_listener(hear)
        yield seen
    finally:
        await transaction.rollback()
        connection.remove_log_listener(hear)
