"""Statements that tests run read little of a database with a history of two years.

Some folders of tests run once more on such a database (tests/plans.py), and the plan of every statement is judged. Here
only plans count: a test that expects an empty database may fail. Statements with names are also planned without a run, in
tests/tools/test_growth.py.
"""

import pathlib
import subprocess
import sys

import pytest

from core.desk.ledger.audit_rules import RULES
from tests import plans

# Tests whose statements are put together at run time, read the most, or run most often.
TESTS = (
    "journeys/test_paid_session.py", "sockets/test_messages.py", "http/operators/test_lookups.py",
    "http/operators/test_activity.py", "http/operators/test_timeline.py", "http/operators/test_audit_log.py",
    "http/operators/test_failures.py", "http/pairing/test_history_and_unread.py",
)  # fmt: skip
ROOT = pathlib.Path(__file__).parents[2]
# Parts of statements -> why they may read more.
MORE = {
    "DELETE FROM auth_sessions WHERE id = ANY": "the sweep of old sign-ins takes a batch at a time",
    "SELECT count(*)::int FROM": "an audit reports how many rows there are",
    "WITH searches AS": "adds up the days of a range; docs/scale.md says when to store daily sums",
    "n.lost_by_ms FROM chat_request_notifications": "older months are read until the page is full",
    "FROM webhook_logs WHERE ( external_id =": "the id of an invoice has no time, and late money comes at any time",
    "SELECT id FROM webhook_logs WHERE NOT token_valid": "a partial index has only the old calls without a token",
    "SELECT id FROM webhook_logs WHERE http_status IS NULL": "a partial index has only the calls without an answer",
    "SELECT s.id::text, s.search_ends_at FROM chat_sessions": "a partial index has only the open invitations of a month",
    "WHERE f.operator_action = $1": "a partial index has only the failures that were paid back, while they are few",
    "c.erased_at IS NOT NULL UNION ALL": "the planner begins with erased customers, and the history has none",
}
AUDITS = tuple(" ".join(rule.sql.split()) for rule in RULES)  # they read all rows on purpose


@pytest.mark.timeout(900)
def test_statements_of_tests_read_little_of_a_grown_database(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--grown", str(tmp_path)]
    done = subprocess.run(
        [*command, *(str(ROOT / "tests" / name) for name in TESTS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    seen = [plan for log in tmp_path.glob("*.log") for plan in plans.of_log(log)]
    assert len({plan.sql for plan in seen}) > 300, done.stdout[-3000:]
    faults = {
        plan.sql: why for plan in seen if (why := plans.fault(plan)) and not any(rule in plan.sql for rule in AUDITS)
    }
    assert {sql: why for sql, why in faults.items() if not any(part in sql for part in MORE)} == {}
