"""Statements ask for a set of states by its function, and a list of the database is a set that a states.py names."""

import pathlib
import re
from collections.abc import Iterator

import pytest

from tests.stack import Stack
from tools.checks.schema_drift import changed_functions
from tools.checks.state_triggers import SETS, TRIGGERS

pytestmark = pytest.mark.anyio
ROOT = pathlib.Path(__file__).parents[2]
FILES = sorted(path for path in (ROOT / "core").rglob("*.*") if path.suffix in (".py", ".sql"))
NAMED = {frozenset(one.states) for one in SETS}
# PostgreSQL writes `IN ('a', 'b')` of an index as `ANY (ARRAY['a', 'b'])`, with casts.
LIST = re.compile(r"\bstatus\b[^'\n]*?(?:IN\s*\(|ARRAY\[)\s*('\w+'(?:,\s*'\w+')*)\s*[)\]]")
INDEXES = "SELECT indexname AS name, indexdef AS text FROM pg_indexes WHERE tablename = 'chat_sessions'"


def lists(sql: str) -> Iterator[frozenset[str]]:
    """Return the lists of two or more words to which SQL compares a status."""
    for listed in LIST.findall(re.sub(r"::(?:text|character varying)(?:\[\])?|[()](?=::)", "", sql)):
        words = frozenset(re.findall(r"\w+", listed))
        if len(words) > 1:
            yield words


def test_no_statement_repeats_a_set_as_a_list() -> None:
    found = [(str(path.relative_to(ROOT)), words) for path in FILES for words in lists(path.read_text())]
    assert [(path, sorted(words)) for path, words in found if words in NAMED] == []
    called = [name for path in FILES for name in re.findall(r"\b(is_\w+)\((?:\w+\.)?status\)", path.read_text())]
    assert {one.name for one in SETS} <= set(called)


async def test_each_list_of_an_index_of_sessions_is_a_named_set(servers: Stack) -> None:
    """An index keeps its list: with a function, its rows would not follow a change of the function."""
    found = [(row["name"], words) for row in await servers.sql(INDEXES) for words in lists(row["text"])]
    assert {"chat_sessions_one_live", "chat_sessions_due_grace"} <= {name for name, _ in found}
    assert [(name, sorted(words)) for name, words in found if words not in NAMED] == []


async def test_functions_of_the_database_have_the_declared_states_and_edges(servers: Stack) -> None:
    async with servers.transaction() as connection:
        assert await changed_functions(connection, [*SETS, *TRIGGERS]) == []
