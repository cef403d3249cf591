"""docs/product.md is complete: each state, table and permission area has a row."""

import itertools
import pathlib
import re

import pytest

from core.accounts.operators.rules import AREAS
from core.config.keys import KEYS
from core.pairing.rules import Response
from core.payments.failures.rules import OperatorAction
from core.sessions.sensitivity import Sensitivity
from core.settings.settings import variables
from core.storage.table_list import declared_tables
from tools.pages.product_page import MACHINES, START, Machine

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "product.md"
EVERY = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


@EVERY
def test_every_state_has_a_meaning(machine: Machine) -> None:
    assert {state for edge in machine.causes for state in edge} == {START, *machine.states}
    assert all(state.meaning.endswith(".") for state in machine.states)


@EVERY
def test_every_state_change_has_causes_and_every_cause_initiators(machine: Machine) -> None:
    assert all(machine.causes.values())
    assert all(cause.event.endswith(".") and cause.initiators for cause in itertools.chain(*machine.causes.values()))


@EVERY
def test_every_state_is_reachable(machine: Machine) -> None:
    reached = {START}
    while found := {after for before, after in machine.causes if before in reached} - reached:
        reached |= found
    assert reached - {START} == set(machine.states)


@pytest.mark.parametrize(
    ("heading", "states"),
    [
        ("States of an invitation", {"open", *Response}),
        ("Failed pairings", {"open", "superseded", *OperatorAction}),
        ("Topic sensitivity", {*Sensitivity}),
    ],
)
def test_machines_that_are_written_by_hand_have_the_values_of_their_enums(heading: str, states: set[str]) -> None:
    rows = rows_of(heading)
    end = next(number for number, row in enumerate(rows) if row[:2] == ["from", "to"])
    assert {row[0].strip("`") for row in rows[:end]} == states
    ends = {cell for row in rows[end + 1 :] for cell in row[:2] if re.fullmatch(r"`\w+`", cell)}
    assert {cell.strip("`") for cell in ends} == states


def rows_of(heading: str) -> list[list[str]]:
    """Return the cells of each row of the tables below a heading of the page."""
    section = re.split(r"^#+ ", PAGE.read_text().split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.M)[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return rows[1:]


def test_every_table_of_the_database_is_a_resource() -> None:
    named = [name for row in rows_of("Resources") for name in re.findall(r"`(\w+)`", row[1])]
    assert sorted(named) == sorted(table._meta.tablename for table in declared_tables())


def test_every_permission_area_is_explained() -> None:
    assert [row[0].strip("`") for row in rows_of("Roles")] == list(AREAS)


def test_defaults_on_the_page_equal_those_of_rows_and_settings() -> None:
    text = PAGE.read_text()
    named = re.findall(r"`(\w+)` \(([\d,]+)\)", text)
    assert len(named) > 15
    settings = {variable.name.upper(): variable.metadata["default"] for variable in variables()}
    for name, value in named:
        default = KEYS[name].default if name in KEYS else settings[name]
        assert str(default) == value.replace(",", ""), name
