"""Each list of session states in SQL is a set that core/sessions/states.py names, so no list misses a new state."""

import pathlib
import re
from collections.abc import Iterator

import pytest

from core.payments.states import PaymentStatus
from core.sessions import states
from core.sessions.extensions.states import ExtensionStatus
from core.sessions.states import SessionStatus
from tests.stack import Stack

pytestmark = pytest.mark.anyio
ROOT = pathlib.Path(__file__).parents[2]
FILES = sorted(path for path in (ROOT / "core").rglob("*.*") if path.suffix in (".py", ".sql"))
NAMED = {frozenset(one) for one in vars(states).values() if isinstance(one, frozenset)}
# Words that no other machine has: a list with one of them is about sessions.
OF_SESSIONS = set(SessionStatus) - set(PaymentStatus) - set(ExtensionStatus)
# PostgreSQL writes `IN ('a', 'b')` of an index as `ANY (ARRAY['a', 'b'])`, with casts.
LIST = re.compile(r"\bstatus\b[^'\n]*?(?:IN\s*\(|ARRAY\[)\s*('\w+'(?:,\s*'\w+')*)\s*[)\]]")
# The functions, views and indexes of the service in a database.
STORED = """SELECT proname AS name, prosrc AS text FROM pg_proc WHERE pronamespace = 'public'::regnamespace
  UNION ALL SELECT viewname, definition FROM pg_views WHERE schemaname = 'public'
  UNION ALL SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"""


def lists(sql: str) -> Iterator[frozenset[str]]:
    """Return the lists of two or more session states to which SQL compares a status."""
    for listed in LIST.findall(re.sub(r"::(?:text|character varying)(?:\[\])?|[()](?=::)", "", sql)):
        words = frozenset(re.findall(r"\w+", listed))
        if len(words) > 1 and words & OF_SESSIONS:
            yield words


def test_each_list_of_session_states_in_core_is_a_named_set() -> None:
    found = [(str(path.relative_to(ROOT)), words) for path in FILES for words in lists(path.read_text())]
    assert len(found) >= 10
    assert [(path, sorted(words)) for path, words in found if words not in NAMED] == []


async def test_each_list_of_session_states_in_the_database_is_a_named_set(servers: Stack) -> None:
    rows = await servers.sql(STORED)
    found = [(row["name"], words) for row in rows for words in lists(row["text"])]
    assert {"online_mitras", "chat_sessions_one_live", "timed_work"} <= {name for name, _ in found}
    assert [(name, sorted(words)) for name, words in found if words not in NAMED] == []
