"""The state of a payment request, a session and an extension is written by one module each."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
FILES = sorted(
    path
    for package in ("core", "api", "realtime", "jobs")
    for suffix in ("*.py", "*.sql")
    for path in (ROOT / package).rglob(suffix)
)
TABLES = {"payment_requests": "payments", "chat_sessions": "sessions", "session_extensions": "extensions"}


def writers(table: str) -> set[str]:
    """Return the files with a statement that inserts a row of a table or sets its status."""
    changes = re.compile(rf"INSERT INTO {table}\b|UPDATE {table}\b(?:(?!\bWHERE\b).)*?\bstatus\s*=", re.DOTALL)
    return {str(path.relative_to(ROOT)) for path in FILES if changes.search(path.read_text())}


def importers(module: str) -> set[str]:
    """Return the files that import a `transitions` module."""
    imports = re.compile(rf"from core\.{module} import .*\btransitions\b|core\.{module}\.transitions")
    return {str(path.relative_to(ROOT)) for path in FILES if imports.search(path.read_text())}


@pytest.mark.parametrize(("table", "concept"), TABLES.items())
def test_only_the_transitions_of_a_concept_write_its_status(table: str, concept: str) -> None:
    assert {path.split(".")[0] for path in writers(table)} == {f"core/{concept}/transitions"}


def test_only_the_steps_of_money_and_extensions_use_their_transitions() -> None:
    assert importers("payments") == {"core/steps/money.py"}
    assert importers("extensions") == {"core/steps/extend.py"}


def test_only_flows_and_steps_use_the_transitions_of_sessions() -> None:
    assert {path.rsplit("/", 1)[0] for path in importers("sessions")} <= {"core/flows", "core/steps"}
