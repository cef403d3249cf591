"""The table of docs/privacy.md: the personal columns of every table, from the marks in their declarations."""

from collections.abc import Iterator

from core.storage.personal import personal_columns
from core.storage.table_list import declared_tables


def rows() -> Iterator[str]:
    """Yield a row for the columns of a table that are stored, kept and erased alike."""
    for table in declared_tables():
        alike: dict[tuple[str, str, str], list[str]] = {}
        for column, mark in personal_columns(table):
            alike.setdefault((mark.why, mark.kept, mark.after), []).append(f"`{column}`")
        for (why, kept, after), columns in alike.items():
            yield f"| `{table._meta.tablename}` | {', '.join(columns)} | {why} | {kept} | {after} |"


def listed() -> str:
    """Return the table."""
    head = ["| table | personal columns | why | how long | after an erasure |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows()]) + "\n"
