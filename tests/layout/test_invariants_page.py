"""docs/invariants.md names only invariants, constraints and rules that exist."""

import pathlib
import re

from core.desk.ledger.audit_rules import ARGUMENTS, FILES, RULES
from core.desk.timed_work import TIMED
from core.storage.migrations import files
from tools.pages import invariants_page

ROOT = pathlib.Path(__file__).parents[2]
SQL = "\n".join(path.read_text() for path in files().values())
TEXT = (ROOT / "docs" / "invariants.md").read_text()


def test_every_rule_of_the_audit_is_on_the_page() -> None:
    assert all(f"- {rule.name}" in TEXT for rule in RULES)


def test_every_rule_of_the_audit_has_a_description() -> None:
    for rule in RULES:
        assert rule.proves, rule.name
        for section in invariants_page.sections_of(rule):
            assert re.fullmatch(r"docs/[a-z]+\.md(#[a-z0-9-]+)?", section), rule.name


def test_every_file_of_rules_is_read_completely() -> None:
    folder = ROOT / "core" / "desk" / "ledger"
    assert {path.stem for path in folder.glob("*.sql")} == set(FILES)
    declared = [
        name for file in FILES for name in re.findall(r"^-- rule: (.+)$", (folder / f"{file}.sql").read_text(), re.M)
    ]
    assert [rule.name for rule in RULES] == declared + [one.rule for one in TIMED if one.rule is not None]
    assert [rule.name for rule in RULES if not re.match(r"(SELECT|WITH)\b", rule.sql)] == []
    assert [rule.name for rule in RULES if rule.arguments is not None] == [
        *(name for name in declared if name in ARGUMENTS),
        *(one.rule for one in TIMED if one.rule is not None),
    ]


def test_every_object_of_the_database_that_the_page_names_exists() -> None:
    named = [
        name
        for line in re.findall(r"^- Database: .*?(?=^- |^$)", TEXT, re.S | re.M)
        for name in re.findall(r"`(\w+)`", line)
    ]
    assert len(named) > 20
    assert [name for name in named if not re.search(rf"\b{name}\b", SQL)] == []


def test_every_invariant_has_its_anchor_in_order() -> None:
    assert sorted(re.findall(r'<a id="(i\d+)"', TEXT)) == sorted(f"i{number}" for number in range(1, 17))
    assert re.findall(r"^\| \[(I\d+)\]\(#i\d+\)", TEXT, re.M) == [f"I{number}" for number in range(1, 17)]
