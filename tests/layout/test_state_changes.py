"""The state of a payment request, a session and an extension is written by one module each, along declared edges."""

import importlib
import pathlib
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from core.base.machine import Edges
from core.payments import states as payment_states
from core.payments import transitions as payment_transitions
from core.sessions import states as session_states
from core.sessions import transitions as session_transitions
from core.sessions.extensions import states as extension_states
from core.sessions.extensions import transitions as extension_transitions
from core.storage.statements import Statement

ROOT = pathlib.Path(__file__).parents[2]
FILES = sorted(
    path
    for package in ("core", "api", "realtime", "jobs")
    for suffix in ("*.py", "*.sql")
    for path in (ROOT / package).rglob(suffix)
)
TABLES = {"payment_requests": "payments", "chat_sessions": "sessions", "session_extensions": "sessions/extensions"}
COMPILES = "core.storage.statements import"


def statements_of(module: ModuleType) -> Iterator[str]:
    """Return the SQL of the statements that a module compiles at import."""
    for value in vars(module).values():
        for one in value.values() if isinstance(value, dict) else [value]:
            if isinstance(one, Statement):
                yield one.sql


def writes_status(sql: str, table: str) -> bool:
    """Return whether SQL inserts a row of a table or sets its status."""
    set_status = rf"""UPDATE "?{table}\b(?:(?!\bWHERE\b).)*?\bstatus"?\s*="""
    return re.search(rf"""INSERT INTO "?{table}\b|{set_status}""", sql, re.DOTALL) is not None


def importers(module: str) -> set[str]:
    """Return the files that import a `transitions` module."""
    module = module.replace("/", r"\.")
    imports = re.compile(rf"from core\.{module} import .*\btransitions\b|core\.{module}\.transitions")
    return {str(path.relative_to(ROOT)) for path in FILES if imports.search(path.read_text())}


@pytest.mark.parametrize(("table", "concept"), TABLES.items())
def test_only_the_transitions_of_a_concept_write_its_status(table: str, concept: str) -> None:
    texts = {str(path.relative_to(ROOT)).split(".")[0] for path in FILES if writes_status(path.read_text(), table)}
    compiled = {
        name
        for name in (str(path.relative_to(ROOT).with_suffix("")) for path in FILES if COMPILES in path.read_text())
        if any(writes_status(sql, table) for sql in statements_of(importlib.import_module(name.replace("/", "."))))
    }
    assert texts | compiled == {f"core/{concept}/transitions"}


def test_only_one_module_each_uses_the_transitions_of_money_and_extensions() -> None:
    assert importers("payments") == {"core/payments/money.py"}
    assert importers("sessions/extensions") == {"core/sessions/extensions/extend.py"}


def test_only_sessions_and_the_domains_above_use_the_transitions_of_sessions() -> None:
    assert {path.split("/")[1] for path in importers("sessions")} <= {"sessions", "pairing", "desk"}


@pytest.mark.parametrize(
    ("module", "status", "edges"),
    [
        (payment_transitions, payment_states.PaymentStatus, payment_states.EDGES),
        (session_transitions, session_states.SessionStatus, session_states.EDGES),
        (extension_transitions, extension_states.ExtensionStatus, extension_states.EDGES),
    ],
    ids=TABLES.values(),
)
def test_every_transition_is_a_declared_edge_and_every_edge_has_a_transition(
    module: Any, status: Any, edges: Edges[Any]
) -> None:
    made: set[tuple[str, str]] = set()
    for sql in (*statements_of(module), *getattr(module, "SQL", {}).values()):
        target = re.search(r"""SET\s+"?status"? = '(\w+)'""", sql)
        if target is None:
            continue
        named = re.findall(r"""status"? (?:= |IN \()((?:'\w+'(?:, )?)+)""", sql[target.end() :])
        # A statement whose state before is a parameter may make every edge to its target.
        before = re.findall(r"'(\w+)'", " ".join(named)) or [one for one, after in edges if after == target[1]]
        made |= {(one, target[1]) for one in before if one in set(status)}
    assert made == set(edges)
