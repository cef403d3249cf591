"""The marks of columns: whether one holds personal data, why, how long, and what an erasure does with it.

The erasure (core/privacy/erase_columns.py), the export (core/privacy/export.py), a rule of the audit and
docs/privacy.md are made from these marks.
"""

import enum
from collections.abc import Iterator
from typing import Any, TypeVar

import attrs
from piccolo.columns import Column, ForeignKey
from piccolo.columns.reference import LazyTableReference
from piccolo.table import Table

C = TypeVar("C", bound=Column)
UNSAID: Any = object()  # the declaration of the column does not say whether it is personal
OF_USERS = "= ANY($1::uuid[])"


class Erase(enum.StrEnum):
    """What an erasure does with a column, as docs/privacy.md says it."""

    NULL = "empty"
    ROW = "deleted"  # the whole row
    KEEP = "stays"
    BY_HAND = "by hand"  # a module does it; `after` says what


@attrs.frozen
class Personal:
    """That a column holds a person's data. `why`, `kept` (how long) and `after` (an erasure) are cells of the page.

    `exported`: an export has the column. Its table must be in a list of core/privacy/export.py.
    """

    why: str
    kept: str
    erase: Erase
    after: str = attrs.Factory(lambda self: str(self.erase), takes_self=True)
    exported: bool = attrs.field(default=False, kw_only=True)


def declare(column: C, *, personal: Personal | None = UNSAID, owner: bool | LazyTableReference = False) -> C:
    """Return a column with its marks. `personal` is None for a column without personal data.

    `owner`: a row belongs to the user with the id in this column, or to the owner of the row that it refers to.
    """
    vars(column).update(personal=personal, owner=owner)
    return column


def mark_of(column: Column) -> Personal | None:
    """Return the mark of a column; None without personal data, UNSAID if its declaration does not say."""
    return vars(column).get("personal", UNSAID)


def personal_columns(table: type[Table], *erase: Erase) -> Iterator[tuple[str, Personal]]:
    """Yield (column, mark) of the personal columns of a table; with `erase`, of those that an erasure treats so."""
    for column in table._meta.columns:
        mark = mark_of(column)
        if isinstance(mark, Personal) and (not erase or mark.erase in erase):
            yield column._meta.name, mark


def belongs(table: type[Table], alias: str, users: str = OF_USERS) -> str:
    """Return the condition that a row of a table belongs to one of some users. Raises ValueError without an owner."""
    owner = next((one for one in table._meta.columns if vars(one).get("owner")), None)
    if owner is None:
        raise ValueError(f"{table._meta.tablename}: mark the column that leads to its user with owner=True")
    name, of = f"{alias}.{owner._meta.name}", _referred(owner)
    if of is None or vars(of._meta.primary_key).get("owner"):
        return f"{name} {users}"
    inner = of._meta.tablename
    # An array is computed once, so that PostgreSQL finds the rows by an index whatever their order.
    return f"{name} = ANY(ARRAY(SELECT {inner}.id FROM {inner} WHERE {belongs(of, inner, users)}))"


def _referred(column: Column) -> type[Table] | None:
    """Return the table whose ids a column has; None if they are the ids of users."""
    owner = vars(column)["owner"]
    if isinstance(owner, LazyTableReference):
        return owner.resolve()
    return column._foreign_key_meta.resolved_references if isinstance(column, ForeignKey) else None
