"""Erase the columns and rows that their tables mark as personal (core/storage/personal.py).

A new column needs its mark only. It is set to null within seconds, or its row is deleted at once. What needs more, such
as texts in rows of others, is erased by hand and marked so.
"""

from collections.abc import Sequence

from piccolo.table import Table

from core.accounts.customers.tables import Customer
from core.accounts.logins.tables import AuthSession
from core.accounts.mitras.tables import Mitra
from core.storage.personal import Erase, belongs, personal_columns
from core.storage.table_list import declared_tables
from core.storage.transaction import Tx

ERASED = """IN (
  SELECT id FROM customers WHERE erased_at IS NOT NULL
  UNION ALL
  SELECT id FROM mitras WHERE erased_at IS NOT NULL
)"""


def _tables(erase: Erase) -> list[type[Table]]:
    return [table for table in declared_tables() if any(personal_columns(table, erase))]


def _of(table: type[Table], condition: str, lock: str) -> str:
    """Return the condition that a row is one of the users' with `condition`, locked in the order of ids."""
    name, key = table._meta.tablename, table._meta.primary_key._meta.name
    rows = f"SELECT t.{key} FROM {name} AS t WHERE {belongs(table, 't')}{condition} ORDER BY t.{key} {lock}"
    return f"WHERE {key} = ANY(ARRAY({rows}))"


def _filled(table: type[Table]) -> str:
    return " OR ".join(f"t.{name} IS NOT NULL" for name, _ in personal_columns(table, Erase.NULL))


def _blank(table: type[Table]) -> str:
    values = ", ".join(f"{name} = NULL" for name, _ in personal_columns(table, Erase.NULL))
    return f"UPDATE {table._meta.tablename} SET {values} {_of(table, f' AND ({_filled(table)})', 'FOR NO KEY UPDATE')}"


def _delete(table: type[Table]) -> str:
    return f"DELETE FROM {table._meta.tablename} {_of(table, '', 'FOR UPDATE')}"


def _left(table: type[Table]) -> str:
    name, theirs = table._meta.tablename, belongs(table, "t", ERASED)
    columns = [column for column, _ in personal_columns(table, Erase.NULL)]
    found = ", ".join(f"CASE WHEN t.{column} IS NOT NULL THEN '{column}' END" for column in columns)
    detail = f"'data in {name}: ' || concat_ws(', ', {found})"
    return f"SELECT t.id::text, {detail} FROM {name} AS t WHERE {theirs} AND ({_filled(table)})"


# The first transaction of an erasure has locked their rows.
FIRST = (Customer, AuthSession, Mitra)
BLANK_FIRST = tuple(_blank(table) for table in FIRST)
# Each in a separate transaction, so that their locks need no order.
BLANK_LATER = tuple(_blank(table) for table in _tables(Erase.NULL) if table not in FIRST)
DELETE = tuple(_delete(table) for table in _tables(Erase.ROW))
# Rows of erased users that still have personal data, for the audit.
LEFT = "\nUNION ALL\n".join(_left(table) for table in FIRST)


async def blank_identity(tx: Tx, user_ids: Sequence[str]) -> None:
    """Erase the marked columns of users and their devices. The caller has locked their rows, and signed them out."""
    for sql in BLANK_FIRST:
        await tx.execute(sql, user_ids)


async def delete_rows(tx: Tx, user_ids: Sequence[str]) -> None:
    """Delete the rows of users whose tables say so. Those of a table are locked in the order of their ids."""
    for sql in DELETE:
        await tx.execute(sql, user_ids)
