"""Write the table of docs/privacy.md: the personal columns of every table, from the marks in their declarations."""

import pathlib
from collections.abc import Iterator

from core.storage.personal import personal_columns
from core.storage.piccolo_app import APP_CONFIG

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "privacy.md"
BEGIN, END = "| table | personal columns | why | how long | after an erasure |\n", "\n\nNothing is stored of"


def rows() -> Iterator[str]:
    """Yield a row for the columns of a table that are stored, kept and erased alike."""
    for table in APP_CONFIG.table_classes:
        alike: dict[tuple[str, str, str], list[str]] = {}
        for column, mark in personal_columns(table):
            alike.setdefault((mark.why, mark.kept, mark.after), []).append(f"`{column}`")
        for (why, kept, after), columns in alike.items():
            yield f"| `{table._meta.tablename}` | {', '.join(columns)} | {why} | {kept} | {after} |"


def page(text: str) -> str:
    """Return the page with its table replaced. Raises ValueError without one."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} must have the table of what is stored")
    return before + begin + "|---|---|---|---|---|\n" + "\n".join(rows()) + end + after


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    print(f"{PAGE.name}: {len(list(rows()))} rows")
