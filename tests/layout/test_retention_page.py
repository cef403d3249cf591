"""The page of retention has one rule for each table, and the defaults of the configuration rows."""

import pathlib
import re

from core.config.keys import KEYS
from core.storage.table_list import declared_tables

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "operating.md"


def rules() -> list[tuple[str, str]]:
    """Return (tables, how long they are kept) of each row of the table of retention."""
    section = PAGE.read_text().split("\n### Retention\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [(tables, kept) for tables, kept in rows[1:]]


def test_every_table_has_one_rule_of_retention() -> None:
    named = [name for tables, _ in rules() for name in re.findall(r"`(\w+)`", tables)]
    assert sorted(named) == sorted(table._meta.tablename for table in declared_tables())


def test_every_row_of_retention_is_in_a_rule_with_its_default() -> None:
    text = "\n".join(kept for _, kept in rules())
    named = dict(re.findall(r"`(retention_\w+)`[^|;]*?(?:\(|; )(\d+)", text))
    assert named == {key: str(row.default) for key, row in KEYS.items() if key.startswith("retention_")}
