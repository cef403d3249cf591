"""Builders of the WHERE clauses of lists with optional filters."""

import datetime as dt
import textwrap
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

_OF_COLUMN = """SELECT
  n.id,
  n.created_at
FROM unnest({values}::{type}[]) AS v (value)
CROSS JOIN LATERAL (
  SELECT
    {t}.id,
    {t}.created_at
  FROM {table} AS {t}
  WHERE {t}.{column} = v.value AND {where}
  ORDER BY {t}.created_at DESC, {t}.id DESC
  LIMIT {limit}
) AS n"""
_FOUND = """WITH found AS MATERIALIZED (
  SELECT id
  FROM (
{parts}
  ) AS u
  ORDER BY created_at DESC, id DESC
  LIMIT {limit}
)"""


class Conditions:
    """A WHERE clause with its arguments, which has only the filters that are set.

    With a generic plan PostgreSQL can't use an index for `$1 IS NULL OR status = $1`; a query without results would
    scan the whole table.
    """

    def __init__(self) -> None:
        self.args: list[Any] = []
        self._texts: list[str] = []

    def arg(self, value: Any) -> str:
        """Add an argument and return its placeholder, such as `$2`."""
        self.args.append(value)
        return f"${len(self.args)}"

    def add(self, text: str, value: Any) -> None:
        """Add a condition in which `{0}` stands for the value. Do nothing for None."""
        if value is not None:
            self._texts.append(text.format(self.arg(value)))

    def plain(self, text: str) -> None:
        """Add a condition without a value."""
        self._texts.append(text)

    def within(self, key: str, *, begin_id: str | None = None, end_id: str | None = None) -> None:
        """Add the condition that the ids in `key` are from one bound to before another (core/base/id_ranges.py).

        The bounds are those of months, so a statement has few forms with them as constants. With parameters PostgreSQL
        could plan it once for all ranges, and would then expect nearly no rows.
        """
        self._texts += [f"{key} >= '{begin_id}'"] if begin_id is not None else []
        self._texts += [f"{key} < '{end_id}'"] if end_id is not None else []

    def behind(
        self,
        at: str,
        tiebreak: str,
        *,
        before_at: dt.datetime | None,
        before_id: str | None,
        oldest_first: bool = False,
    ) -> None:
        """Add the condition that rows come after a cursor in a list by (`at`, `tiebreak`). Do nothing without a cursor.

        `at` is the SQL of the row's time and `tiebreak` that of its id. The list is newest first unless `oldest_first`.
        """
        if before_at is not None:
            stamp, sign = self.arg(before_at), ">" if oldest_first else "<"
            self._texts.append(
                f"{at} {sign}= {stamp} AND ({at}, {tiebreak}) {sign} ({stamp}, {self.arg(before_id)}::uuid)"
            )

    def __str__(self) -> str:
        return " AND ".join(self._texts) or "true"


def newest(
    table: str,
    t: str,
    among: Sequence[tuple[str, Sequence[Any]]],
    where: Conditions,
    limit: str,
    *,
    types: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return a WITH clause `found`: the ids of the newest rows of `table` that have one of some values in one of some
    columns.

    `among` is a list of (column, values), and `t` the alias of the table in `where`. For each value an index on the
    column and `created_at` gives the newest rows, at most `limit`. Columns are UUIDs, except those with
    another type in `types`.
    """
    parts = [
        _OF_COLUMN.format(
            values=where.arg(values),
            type=types.get(column, "uuid"),
            table=table,
            t=t,
            column=column,
            where=where,
            limit=limit,
        )
        for column, values in among
    ]
    return _FOUND.format(parts=textwrap.indent("\nUNION\n".join(parts), "    "), limit=limit)


def part_of(q: str | None) -> str | None:
    """Return the LIKE pattern that finds `q` anywhere, with its wildcards escaped; None if `q` is empty or None."""
    return None if not q else "%" + q.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
