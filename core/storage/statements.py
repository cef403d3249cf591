"""Compile Piccolo's queries once, at import, to SQL that runs in our transactions
(docs/decisions/0006-piccolo-for-simple-statements.md).

Piccolo makes every value a parameter. Here only `Param` values become `$1`, `$2`, …; constants stay in the text, so
that PostgreSQL can use an index `WHERE status = 'pending'`.
"""

import enum
from collections.abc import Container, Iterable
from typing import Any, Generic, TypeVar

import attrs
from piccolo.columns import Column
from piccolo.columns.combination import WhereRaw
from piccolo.columns.defaults.base import Default
from piccolo.query import Query
from piccolo.query.methods import Delete, Insert, Update
from piccolo.querystring import QueryString
from piccolo.table import Table

from core.storage import records
from core.storage.transaction import Reader, Tx

R = TypeVar("R")
S = TypeVar("S", bound=enum.Enum)


class Param(str):
    """The name of a value that is given at run time. It is a text because Piccolo leaves texts as they are."""

    __slots__ = ()


class _Params:
    def __getattr__(self, name: str) -> Any:
        return Param(name)


p = _Params()  # `p.mitra_id` is the parameter `mitra_id`


@attrs.frozen
class Statement(Generic[R]):
    """SQL with the names of `$1`, `$2`, …, and the class of its rows.

    Each method raises TypeError if the names of the values are not those of the parameters.
    """

    sql: str
    names: tuple[str, ...]
    record: type[R]

    async def first(self, reader: Reader, **values: Any) -> R | None:
        """Run the statement and return its first row, or None."""
        return records.one(self.record, await reader.fetchrow(self.sql, *self._args(values)))

    async def one(self, reader: Reader, **values: Any) -> R:
        """Run the statement and return its row. Raises LookupError without one."""
        found = await self.first(reader, **values)
        if found is None:
            raise LookupError(f"no row for {self.sql}")
        return found

    async def all(self, reader: Reader, **values: Any) -> list[R]:
        """Run the statement and return its rows."""
        return records.many(self.record, await reader.fetch(self.sql, *self._args(values)))

    async def value(self, reader: Reader, **values: Any) -> Any:
        """Run the statement and return the first column of its first row, or None. An id is returned as text."""
        return records.plain(await reader.fetchval(self.sql, *self._args(values)))

    async def execute(self, tx: Tx, **values: Any) -> int:
        """Run the statement and return how many rows it touched."""
        return await tx.execute(self.sql, *self._args(values))

    def _args(self, values: dict[str, Any]) -> list[Any]:
        if values.keys() != set(self.names):
            raise TypeError(f"the parameters are {self.names}, not {tuple(values)}")
        return [values[name] for name in self.names]


def statement(query: Query[Any, Any], record: type[R] = dict) -> Statement[R]:
    """Compile a query whose rows are `record`s.

    Raises UpdateError or DeletionError of Piccolo for an UPDATE or DELETE without a condition, and TypeError for a
    constant that is not a text, an integer, a boolean or None.
    """
    if isinstance(query, Update | Delete):
        query._validate()
    _, fragments, args = query.querystrings[0].bundle(start_index=1, bundled=[], combined_args=[])
    names: list[str] = []
    values = iter(args)
    text = "".join(f.prefix + ("" if f.no_arg else _sql_of(next(values), names)) for f in fragments)
    return Statement(text, tuple(names), record)


def _sql_of(value: Any, names: list[str]) -> str:
    """Return the SQL of a value, and add the name of a parameter to `names`."""
    if isinstance(value, Param):
        if value not in names:
            names.append(str(value))
        return f"${names.index(value) + 1}"
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    raise TypeError(f"{value!r} can't be a constant of a statement")


def columns_of(table: type[Table], record: type[Any]) -> list[Column]:
    """Return the columns of a table that an attrs class has as fields.

    Raises ValueError for a field without a column.
    """
    return [table._meta.get_column_by_name(field.name) for field in attrs.fields(record)]


def names_of(record: type[Any]) -> str:
    """Return the fields of an attrs class as a list of columns, for SQL that Piccolo can't write."""
    return ", ".join(field.name for field in attrs.fields(record))


class _Insert(Insert[Any]):
    """An INSERT that names only the given columns, so that a release that no longer uses a column may drop it later."""

    __slots__ = ("values",)

    def __init__(self, table: type[Table], values: dict[str, Any]) -> None:
        super().__init__(table)
        self.values = values

    @property
    def default_querystrings(self) -> list[QueryString]:
        table = self.table._meta.get_formatted_tablename()
        names = ", ".join(f'"{name}"' for name in self.values)
        places = ", ".join("{}" for _ in self.values)
        parts = [QueryString(f"INSERT INTO {table} ({names}) VALUES ({places})", *self.values.values())]
        if self.on_conflict_delegate._on_conflict.on_conflict_items:
            parts.append(self.on_conflict_delegate._on_conflict.querystring)
        if self.returning_delegate._returning is not None:
            parts.append(self.returning_delegate._returning.querystring)
        return [QueryString("{}" * len(parts), *parts)]


def insert(table: type[Table], names: str, **constants: Any) -> Insert[Any]:
    """Return the INSERT of one row. `names` are the columns that are given at run time, such as `id phone`.

    The database sets the other columns to their defaults. Raises ValueError for an unknown column, and for a missing
    one that needs a value.
    """
    values: dict[str, Any] = {name: Param(name) for name in names.replace(",", " ").split()} | constants
    for name in values:
        table._meta.get_column_by_name(name)
    missing = [c._meta.name for c in table._meta.columns if c._meta.name not in values and _needs_value(c)]
    if missing:
        raise ValueError(f"{table._meta.tablename}: {', '.join(missing)} must have a value")
    return _Insert(table, values)


def _needs_value(column: Column) -> bool:
    """Return whether the database has no default for a column: it may not be null, and its default is None or now()."""
    default = column.get_default_value()
    return not column._meta.null and (default is None or isinstance(default, Default))


def transition(
    table: type[Table], edges: Container[tuple[S, S]], before: Iterable[S], after: S, **values: Any
) -> Update[Any]:
    """Return the UPDATE of a row's status, by the parameter `id`, from one of `before` to `after`.

    `values` are set too.

    Raises ValueError for a change that is not in `edges`.
    """
    meta = table._meta
    states = list(before)
    for state in states:
        if (state, after) not in edges:
            raise ValueError(f"{meta.tablename} has no edge from {state} to {after}")
    status = meta.get_column_by_name("status")
    changes = {meta.get_column_by_name(name): value for name, value in values.items()}
    condition = status == states[0] if len(states) == 1 else status.is_in(states)
    return table.update({status: after, **changes}).where(meta.primary_key == p.id, condition)


def claim(due: Column, *conditions: Any, limit: int) -> Update[Any]:
    """Return the UPDATE that claims what is due: it clears the moment `due` of rows that meet the conditions.

    It takes at most `limit` rows whose moment has come by the parameter `now`, the longest overdue first, and none that
    another transaction has locked. A row that changed just before it is locked is checked again.
    """
    table = due._meta.table
    is_due = (due <= p.now, *conditions)
    chosen = table.select(table._meta.primary_key).where(*is_due).order_by(due).limit(limit)
    locked = chosen.lock_rows("NO KEY UPDATE", skip_locked=True)
    return table.update({due: None}).where(*is_due, WhereRaw("id = ANY(ARRAY({}))", locked.querystrings[0]))
