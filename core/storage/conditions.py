"""The WHERE of a list that can be asked for in many ways."""

import datetime as dt
from typing import Any


class Conditions:
    """Grows by what was asked for, and by nothing else.

    A condition like `$1 IS NULL OR status = $1` is no bound of an index once PostgreSQL keeps one plan for all arguments;
    a list that nobody is in would then be looked for in the whole table.
    """

    def __init__(self) -> None:
        self.args: list[Any] = []
        self._texts: list[str] = []

    def arg(self, value: Any) -> str:
        """Add an argument; return what stands for it."""
        self.args.append(value)
        return f"${len(self.args)}"

    def add(self, text: str, value: Any) -> None:
        """Add a condition, `{0}` standing for the value; none for None."""
        if value is not None:
            self._texts.append(text.format(self.arg(value)))

    def plain(self, text: str) -> None:
        """Add a condition without a value."""
        self._texts.append(text)

    def behind(
        self, at: str, place: str, *, before_at: dt.datetime | None, before_id: str | None, oldest_first: bool = False
    ) -> None:
        """Add the place in a list, newest first unless said otherwise, that a cursor names."""
        if before_at is not None:
            stamp, sign = self.arg(before_at), ">" if oldest_first else "<"
            self._texts.append(
                f"{at} {sign}= {stamp} AND ({at}, {place}) {sign} ({stamp}, {self.arg(before_id)}::uuid)"
            )

    def __str__(self) -> str:
        return " AND ".join(self._texts) or "true"


def newest(
    table: str,
    t: str,
    among: list[tuple[str, list[str]]],
    where: Conditions,
    limit: str,
    *,
    text_columns: tuple[str, ...] = (),
) -> str:
    """Return a WITH clause: `found`, the ids of the newest rows (called `t`) that have one of the values in one of the columns.

    Each value's newest rows are read by an index on the column and `created_at`, at most `limit` of them. Columns hold
    UUIDs, except `text_columns`.
    """
    parts = [
        f"""SELECT n.id, n.created_at FROM unnest({where.arg(values)}::{"text" if column in text_columns else "uuid"}[]) v(value)
            CROSS JOIN LATERAL (SELECT {t}.id, {t}.created_at FROM {table} {t} WHERE {t}.{column} = v.value AND {where}
              ORDER BY {t}.created_at DESC, {t}.id DESC LIMIT {limit}) n"""
        for column, values in among
    ]
    return f"""WITH found AS MATERIALIZED (
      SELECT id FROM ({" UNION ".join(parts)}) u ORDER BY created_at DESC, id DESC LIMIT {limit})"""
