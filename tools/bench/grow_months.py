"""Partitions for the months that `sesi grow` fills, which begin long before those of a new database."""

import datetime as dt
from typing import Any

from core.base.id_ranges import first_id, moment_of, month_of, months_after, months_between
from core.storage.partitions import OPTIONS, Partition, name_of, partitions


async def make_past(connection: Any, begin: dt.datetime) -> None:
    """Split the first partition of each table by months, from that of `begin` on.

    A further run finds them. The rows of that partition are copied; no trigger may be enabled for it.
    """
    first_month = month_of(begin)
    for one in await partitions(connection):
        if one.begin is None and moment_of(one.end) > first_month:
            await _split(connection, one, first_month)


async def _split(connection: Any, first: Partition, month: dt.datetime) -> None:
    table, options = first.of, await connection.fetchval(OPTIONS, first.name)
    end = moment_of(first.end)
    names = ", ".join(
        row["name"]
        for row in await connection.fetch(
            "SELECT quote_ident(attname) AS name FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped",
            table,
        )
    )
    await connection.execute(f"ALTER TABLE {table} DETACH PARTITION {first.name}")
    await _make(connection, table, f"{table}_before_{month:%Y_%m}", "MINVALUE", month, options)
    for count in range(months_between(month, end)):
        begin = months_after(month, count)
        await _make(connection, table, name_of(table, begin), f"'{first_id(begin)}'", months_after(begin, 1), options)
    await connection.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM {first.name}")
    await connection.execute(f"DROP TABLE {first.name}")


async def _make(connection: Any, table: str, name: str, begin: str, end: dt.datetime, options: str | None) -> None:
    await connection.execute(
        f"CREATE TABLE {name} PARTITION OF {table} FOR VALUES FROM ({begin}) TO ('{first_id(end)}')"
        + (f" WITH ({options})" if options else "")
    )
