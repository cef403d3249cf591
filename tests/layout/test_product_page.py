"""docs/product.md is complete: its generated parts are current, and each table and permission area has a row."""

import itertools
import re

import pytest

from core.accounts.operators.rules import AREAS
from core.config.keys import KEYS
from core.pairing.rules import Response
from core.payments.failures.rules import OperatorAction
from core.sessions.sensitivity import Sensitivity, SensitivityLatched, flips
from core.settings.settings import variables
from core.storage.piccolo_app import APP_CONFIG
from tools.pages import product_page, state_machines
from tools.pages.state_machines import MACHINES, START, Machine

EVERY = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)


def test_generated_parts_are_current() -> None:
    text = product_page.PAGE.read_text()
    assert text == product_page.page(text), "run `make pages`"


@EVERY
def test_every_state_has_a_meaning(machine: Machine) -> None:
    named = {state for edge in machine.edges for state in edge}
    assert {str(state) for state in machine.states} == named
    assert all(meaning.endswith(".") for meaning in machine.states.values())


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


def test_machines_without_a_table_have_the_values_of_their_enums() -> None:
    assert {after for _, after in state_machines.INVITATION.edges} == set(Response)
    assert {after for _, after in state_machines.FAILURE.edges} == {*OperatorAction, "superseded"}
    assert set(state_machines.SENSITIVITY.states) == set(Sensitivity)
    for before, after in state_machines.SENSITIVITY.edges:
        assert flips(Sensitivity(before), Sensitivity(after), one_way=False)
    with pytest.raises(SensitivityLatched):
        flips(Sensitivity.SENSITIVE, Sensitivity.REGULAR, one_way=True)


def test_page_without_a_marker_is_refused() -> None:
    with pytest.raises(ValueError, match="payment request"):
        product_page.page("")


def rows_of(heading: str) -> list[list[str]]:
    """Return the cells of each row of the tables below a heading of the page."""
    section = re.split(r"^#+ ", product_page.PAGE.read_text().split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.M)[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return rows[1:]


def test_every_table_of_the_database_is_a_resource() -> None:
    named = [name for row in rows_of("Resources") for name in re.findall(r"`(\w+)`", row[1])]
    assert sorted(named) == sorted(table._meta.tablename for table in APP_CONFIG.table_classes)


def test_every_permission_area_is_explained() -> None:
    assert [row[0].strip("`") for row in rows_of("Roles")] == list(AREAS)


def test_defaults_on_the_page_equal_those_of_rows_and_settings() -> None:
    text = product_page.PAGE.read_text()
    named = re.findall(r"`(\w+)` \(([\d,]+)\)", text)
    assert len(named) > 15
    settings = {variable.name.upper(): variable.metadata["default"] for variable in variables()}
    for name, value in named:
        default = KEYS[name].default if name in KEYS else settings[name]
        assert str(default) == value.replace(",", ""), name


def test_every_configuration_row_that_is_used_is_on_the_page() -> None:
    text = product_page.PAGE.read_text()
    assert [key for key, row in KEYS.items() if row.used and f"`{key}`" not in text] == []
