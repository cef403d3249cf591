"""Tables that are partitioned by month: what partitions they have, and making, detaching and dropping one
(docs/decisions/0018-partitions-by-the-month-of-an-id.md).

Months are made ahead, and no default partition takes rows without a month: with one, PostgreSQL would search its rows
whenever a month is made, and could not detach a month while others write.
"""

import datetime as dt
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import attrs

from core.base.id_ranges import first_id, moment_of, month_of, months_after, months_between
from core.storage import locks, sql_files
from core.storage.locks import AdvisoryLock
from core.storage.transaction import Reader, Tx

# Table -> the column whose month decides.
PARTITIONED: Mapping[str, str] = MappingProxyType(
    {
        "chat_messages": "session_id",
        "chat_request_notifications": "session_id",
        "delivery_trail": "event_id",
        "webhook_logs": "id",
    }
)
# Tables of foreign keys, which a new partition locks against writes; in the order in which flows lock them.
REFERENCED = MappingProxyType({"chat_request_notifications": "mitras, chat_sessions"})
AHEAD = 3  # months after the present one that have partitions; with none left, nothing more can be stored
# Up to three locks are waited for one after the other, and writers wait behind them: together less than two seconds.
LOCKS = "SET LOCAL lock_timeout = '600ms'"
SQL = sql_files.load(__file__)
OPTIONS = SQL["options"]
BOUNDS = re.compile(r"FOR VALUES FROM \((?:MINVALUE|'([0-9a-f-]{36})')\) TO \('([0-9a-f-]{36})'\)")


@attrs.frozen(kw_only=True)
class Partition:
    """A partition of the table `of`, for ids from `begin` (None: from the lowest) to before `end`.

    `is_detaching`: a detachment was begun and not finished.
    """

    of: str
    name: str
    begin: str | None
    end: str
    is_detaching: bool


async def partitions(reader: Reader) -> list[Partition]:
    """Return the partitions of all partitioned tables, those with the lowest ids first."""
    found: list[Partition] = []
    for row in await reader.fetch(SQL["partitions"], list(PARTITIONED)):
        bounds = BOUNDS.fullmatch(row["bounds"])
        assert bounds is not None, f"{row['name']} is no range of ids: {row['bounds']}"
        found.append(
            Partition(of=row["of"], name=row["name"], begin=bounds[1], end=bounds[2], is_detaching=row["is_detaching"])
        )
    return sorted(found, key=lambda one: one.end)


def months_ahead(found: list[Partition], now: dt.datetime) -> dict[str, int]:
    """Return table -> how many months after the present one have partitions; -1 if the present one has none."""
    ends = {one.of: moment_of(one.end) for one in found}
    return {
        table: max(-1, months_between(month_of(now), ends[table]) - 1) if table in ends else -1 for table in PARTITIONED
    }


def missing(found: list[Partition], now: dt.datetime) -> list[tuple[str, dt.datetime]]:
    """Return the (table, month) that must be made, so that the AHEAD months after the present one have partitions."""
    last = months_after(month_of(now), AHEAD)
    ends = {one.of: moment_of(one.end) for one in found}
    return [
        (table, months_after(end, count))
        for table, end in sorted(ends.items())
        for count in range(months_between(end, last) + 1)
    ]


def name_of(table: str, month: dt.datetime) -> str:
    """Return the name of a month's partition, such as chat_messages_2026_11."""
    return f"{table}_{month:%Y_%m}"


async def make(tx: Tx, table: str, month: dt.datetime) -> bool:
    """Make the partition of the month after a table's last one. Return False if it is there.

    Readers and writers of the table go on. Raises LockNotAvailableError if another transaction writes to a table of a
    foreign key for too long.
    """
    await tx.execute(LOCKS)
    await locks.hold(tx, AdvisoryLock.PARTITIONS)
    there = [one for one in await partitions(tx) if one.of == table]
    begin, end = first_id(month), first_id(months_after(month, 1))
    if not there or there[-1].end != begin:
        return False
    if table in REFERENCED:
        await tx.execute(f"LOCK TABLE {REFERENCED[table]} IN SHARE ROW EXCLUSIVE MODE")
    name, options = name_of(table, month), await tx.fetchval(OPTIONS, there[-1].name)
    await tx.execute(
        f"CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)"
        + (f" WITH ({options})" if options else "")
    )
    if owner := await tx.fetchval(SQL["owner"], table):
        await tx.execute(f"ALTER TABLE {name} OWNER TO {owner}")
    await tx.execute(f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ('{begin}') TO ('{end}')")
    return True


def past(found: list[Partition], table: str, before: dt.datetime) -> list[Partition]:
    """Return the partitions of a table whose months ended before `before`, and those that are being detached."""
    return [one for one in found if one.of == table and (one.is_detaching or one.end <= first_id(before))]


async def detach(connection: Any, partition: Partition, *, concurrently: bool) -> None:
    """Take a partition out of its table, so that no statement reads it.

    `concurrently`: readers and writers go on, and the connection is in no transaction. If such a detachment is
    interrupted, a further call ends it.
    """
    how = "FINALIZE" if partition.is_detaching else "CONCURRENTLY" if concurrently else ""
    await connection.execute(f"ALTER TABLE {partition.of} DETACH PARTITION {partition.name} {how}")


async def drop_detached(tx: Tx, table: str) -> list[str]:
    """Drop the former partitions of a table; return their names."""
    await tx.execute(LOCKS)
    names = [row["relname"] for row in await tx.fetch(SQL["detached"], table)]
    for name in names:
        await tx.execute(f"DROP TABLE {name}")
    return names
