"""`make migration` writes what the code declares and the database lacks."""

import re
from collections.abc import Iterator

import asyncpg
import attrs
import pytest

from core.sessions.states import SessionStatus
from core.storage.migrations import NEXT_TRANSACTION, files
from core.storage.table_list import declared_tables
from tests.migrations import catalog
from tests.stack import Stack
from tools.checks import new_migration
from tools.checks.schema_drift import ChangedCheck, changed_checks, changed_functions, declared_checks
from tools.checks.state_triggers import SETS, TRIGGERS, edges_in

pytestmark = pytest.mark.anyio


@pytest.fixture
def stack() -> Iterator[Stack]:
    """Yield a database with the present schema."""
    made = Stack(only_database=True)
    yield made
    made.close()


async def test_migration_of_a_new_word_edge_and_state_of_a_set_makes_the_database_allow_them(stack: Stack) -> None:
    """As if an enum had another mode, the sessions' edges one from failed to searching, and a set the failed one."""
    checks = declared_checks(declared_tables())
    name = "chat_sessions_known_mode"
    checks["chat_sessions"][name] = checks["chat_sessions"][name].replace("(", "('video', ", 1)
    sessions = next(one for one in TRIGGERS if one.table == "chat_sessions")
    edges = [*sessions.edges, ("failed", "searching")]
    held = next(one for one in SETS if one.name == "is_held")
    functions = [
        attrs.evolve(held, states=held.states | {SessionStatus.FAILED}),
        attrs.evolve(sessions, edges=edges),
        *(one for one in [*SETS, *TRIGGERS] if one not in (held, sessions)),
    ]
    connection = await asyncpg.connect(stack.database_url)
    try:
        before = await catalog.schema(connection)
        found = await changed_checks(connection, checks), await changed_functions(connection, functions)
        assert await catalog.schema(connection) == before
        assert found == ([ChangedCheck("chat_sessions", name, checks["chat_sessions"][name])], functions[:2])
        for part in 2 * new_migration.text_of(*found).split(NEXT_TRANSACTION):  # a crash may run it twice
            await connection.execute(part)
        assert (await changed_checks(connection, checks), await changed_functions(connection, functions)) == ([], [])
        lines = await catalog.schema(connection) - before
        assert sorted(line.partition(" ")[0] for line in lines) == ["constraint", "function", "function"]
        assert any("'video'" in line and "validated t" in line for line in lines)
    finally:
        await connection.close()


async def test_migration_drops_a_constraint_that_is_no_longer_declared(stack: Stack) -> None:
    checks = declared_checks(declared_tables())
    del checks["chat_messages"]["chat_messages_sane"]
    connection = await asyncpg.connect(stack.database_url)
    try:
        found = await changed_checks(connection, checks)
        assert found == [ChangedCheck("chat_messages", "chat_messages_sane", None)]
        await connection.execute(new_migration.text_of(found, []))
        assert await changed_checks(connection, checks) == []
    finally:
        await connection.close()


def test_constraints_of_each_table_are_replaced_in_a_separate_transaction() -> None:
    names = [("chat_messages", "one"), ("chat_messages", "two"), ("payment_requests", "three")]
    found = [ChangedCheck(table, name, "true") for table, name in names]
    parts = new_migration.text_of(found, []).split(NEXT_TRANSACTION)
    assert [re.findall(r"ADD CONSTRAINT (\w+)", part) for part in parts] == [["one", "two"], ["three"], [], []]
    assert parts[2].strip() == new_migration.OTHER.strip()
    assert re.findall(r"VALIDATE CONSTRAINT (\w+)", parts[-1]) == ["one", "two", "three"]


def test_functions_of_the_series_are_written_like_those_of_new_migrations() -> None:
    text = "\n".join(path.read_text() for path in files().values())
    assert [one.name for one in SETS if one.function_sql() not in text] == []
    for trigger in TRIGGERS:
        function = re.search(rf"CREATE OR REPLACE FUNCTION {trigger.name}\(\).*?\$\$;\n", text, re.S)
        assert function is not None
        assert function[0] == attrs.evolve(trigger, edges=edges_in(function[0])).function_sql()
        assert trigger.trigger_sql() in text


def test_names_that_are_no_file_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("Mitra left", "../x", "9_lives", ""):
        assert new_migration.main([name]) == 2
    assert "NAME must be lower-case words" in capsys.readouterr().err


def test_migration_without_changes_has_a_heading_for_hand_written_sql() -> None:
    assert new_migration.text_of([], []) == new_migration.OTHER
