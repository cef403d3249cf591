"""Which tests a run has: those of `make test`, or all of them (`make test-all`).

`make test` leaves out the folders whose tests need engines, a browser, many restarts or real waiting, those that look at
the tree itself, and the tests of these kinds that stand with their subject and have the mark `slow`. One journey of each
kind is part of it.
"""

import functools
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")
ROOT = pathlib.Path(__file__).parent
SLOW = frozenset(
    {"apps", "backup", "client", "deploy", "faults", "ha", "layout", "migrations", "pages", "tools", "traces"}
)
# Slow tests that are part of `make test`: a paid session over its whole time, and one in a browser; a kill at a commit; an
# upgrade; the client library on the vectors.
JOURNEYS = {
    "journeys/test_paid_session.py": {"test_paid_session_runs_from_payment_to_goodbye"},
    "client/test_library.py": {"test_library_passes_its_tests_in_node"},
    "faults/test_kill_points.py": {"test_realtime_process_killed_around_a_message_batch_loses_nothing"},
    "apps/test_paid_session.py": {"test_paid_session_in_two_windows_survives_a_reload_and_a_lost_network"},
    "migrations/test_schema_upgrades.py": {
        "test_upgrade_by_the_last_migration_equals_a_new_database_and_keeps_each_row"
    },
}
QUICK = "QUICK_TESTS"  # in the environment of `make test`
SHARES = 3  # see rounds() and share()
FEWER = 10  # in `make test`, property tests try this fraction of their examples
LIMIT_S = 5.0  # for one test outside the slow folders, alone on the machine


def examples(count: int) -> int:
    """Return how many of its examples a property test tries in this run."""
    return max(5, count // FEWER) if QUICK in os.environ else count


def rounds(count: int) -> int:
    """Return how often a test of a race tries it in this run: in `make test` a third, and at least twice."""
    return max(2, count // SHARES) if QUICK in os.environ else count


def share(things: Sequence[T], place: int) -> Sequence[T]:
    """Return what case `place` tries of many things: in `make test` every third, so that three in a row try all."""
    return things[place % SHARES :: SHARES] if QUICK in os.environ else things


def parts(things: Iterable[object]) -> Sequence[object]:
    """Return the cases of a long test for `parametrize`: the first one belongs to `make test` too."""
    first, *others = things
    return [first, *(pytest.param(other, marks=pytest.mark.slow) for other in others)]


@functools.cache
def _name(path: pathlib.Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def is_slow(path: pathlib.Path) -> bool:
    """Return whether a file or folder belongs to a slow folder."""
    return path.is_relative_to(ROOT) and path != ROOT and path.relative_to(ROOT).parts[0] in SLOW


def is_in_quick_tier(path: pathlib.Path) -> bool:
    """Return whether `make test` has tests in this file or folder."""
    return not is_slow(path) or any(name.startswith(_name(path)) for name in JOURNEYS)


def is_journey(path: pathlib.Path, name: str) -> bool:
    """Return whether a test of a slow folder is part of `make test`."""
    return name in JOURNEYS.get(_name(path), ())


def missing(found: Iterable[tuple[pathlib.Path, str]]) -> list[str]:
    """Return the journeys that are not among the collected tests, pairs of a file and a test's name."""
    names = {(_name(path), name) for path, name in found}
    return [f"{path}::{name}" for path, those in JOURNEYS.items() for name in those if (path, name) not in names]
