"""What a run of the tests does with tests that fail, and how it is judged."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests import run
from tests.run import BUSY, MOST_REPEATED, MOST_UNSTABLE, Found, again, judge
from tests.tiers import JOURNEYS, LIMIT_S, ROOT, SLOW, is_in_quick_tier, is_journey, missing

CONFTEST = """
import pathlib
from tests.verdicts import Outcomes, pytest_runtest_makereport

def pytest_addoption(parser):
    parser.addoption("--outcomes", type=pathlib.Path)

def pytest_configure(config):
    config.pluginmanager.register(Outcomes(config.option.outcomes, 0.2))
"""
FAILING = """
import asyncio, time
import pytest
from tests.verdicts import NeverSeen, Violation, check_books

def at_once():
    return ["ok", "ok"]

def test_good(): pass
def test_wrong(): assert 1 == 2
def test_long(): time.sleep(0.25)
@pytest.mark.slow
def test_slow(): time.sleep(0.25)
@pytest.fixture
def broken(): raise OSError("no room")
def test_without_its_fixture(broken): pass
def test_race_that_waits_too_long():
    at_once()
    raise NeverSeen("x")
"""


def found(
    failed: int = 0, *, verdicts: int = 0, code: int = 1, names: str = "http/test_a.py", **seconds: float
) -> Found:
    """Return what a run found in which the first tests of a file failed."""
    tests = [f"tests/{names}::test_{n}" for n in range(failed)]
    return Found(
        code=code,
        failed=dict.fromkeys(tests, "trace"),
        verdicts=frozenset(tests[:verdicts]),
        seconds={f"tests/{names}::{name}": taken for name, taken in seconds.items()},
    )


def outcomes_of(tmp_path: pathlib.Path, body: str) -> Found:
    """Run the tests of a file, and return what was recorded."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(body)
    record = tmp_path / "outcomes"
    record.touch()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", f"--outcomes={record}", f"--rootdir={tmp_path}", "-c/dev/null", str(tmp_path)],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=ROOT.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return run.read(done.returncode, record)


def test_failed_and_long_tests_are_recorded_with_their_traceback(tmp_path: pathlib.Path) -> None:
    seen = outcomes_of(tmp_path, FAILING)
    names = {test.partition("::")[2]: trace for test, trace in seen.failed.items()}
    assert names.keys() == {"test_wrong", "test_without_its_fixture", "test_race_that_waits_too_long"}
    assert "assert 1 == 2" in names["test_wrong"]
    assert (
        run.reason(names["test_without_its_fixture"])
        == """>   def broken(): raise OSError("no room")
    E   OSError: no room"""
    )
    assert seen.verdicts == frozenset()
    assert seen.seconds.keys() == {
        "test_some.py::test_wrong",
        "test_some.py::test_race_that_waits_too_long",
        "test_some.py::test_long",
    }
    assert seen.seconds["test_some.py::test_long"] >= 0.25
    assert seen.code == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        'raise Violation("two mitras")',
        'check_books({"violations": [{"rule": "money"}]})',
        'raise ExceptionGroup("tasks", [ValueError(), Violation("lost")])',
        'assert at_once() == ["ok", "SESSION_IN_PROGRESS"]',
    ],
)
def test_violation_and_wrong_outcome_of_a_race_end_the_run(tmp_path: pathlib.Path, body: str) -> None:
    seen = outcomes_of(tmp_path, FAILING + f"\ndef test_verdict():\n    {body}\n\ndef test_after(): assert False\n")
    assert {test.partition("::")[2] for test in seen.verdicts} == {"test_verdict"}
    assert not any(test.endswith("test_after") for test in seen.failed)
    assert again(seen) == ()
    assert not judge(seen, None).is_passed


def test_what_failed_is_repeated_unless_it_is_a_verdict_or_too_much() -> None:
    assert again(found()) == ()
    assert again(found(2)) == ("tests/http/test_a.py::test_0", "tests/http/test_a.py::test_1")
    assert again(found(2, verdicts=1)) == ()
    assert len(again(found(MOST_REPEATED))) == MOST_REPEATED
    assert again(found(MOST_REPEATED + 1)) == ()


def test_few_tests_that_pass_when_repeated_do_not_fail_the_run() -> None:
    judged = judge(found(MOST_UNSTABLE), found(0, code=0))
    assert (judged.is_passed, len(judged.unstable), judged.failed) == (True, MOST_UNSTABLE, ())
    assert not judge(found(MOST_UNSTABLE + 1), found(0, code=0)).is_passed
    twice = judge(found(3), found(1))
    assert (twice.is_passed, len(twice.unstable), len(twice.failed)) == (False, 2, 1)
    assert judge(found(0, code=0), None).is_passed
    assert not judge(found(1), None).is_passed


def test_test_that_takes_long_alone_fails_the_run_outside_the_slow_folders() -> None:
    first = found(long=BUSY * LIMIT_S + 3, other=BUSY * LIMIT_S + 1, busy=BUSY * LIMIT_S - 1)
    assert again(first) == ("tests/http/test_a.py::long", "tests/http/test_a.py::other")
    judged = judge(first, found(long=LIMIT_S + 0.1, other=LIMIT_S - 0.1))
    assert (judged.is_passed, judged.too_slow) == (False, ("tests/http/test_a.py::long",))


def test_slow_folders_exist_and_each_has_its_journeys_in_the_quick_tier() -> None:
    assert all((ROOT / folder).is_dir() for folder in SLOW)
    for name, functions in JOURNEYS.items():
        assert (ROOT / name).is_file()
        assert is_in_quick_tier(ROOT / name)
        assert is_in_quick_tier(ROOT / name.partition("/")[0])
        assert all(is_journey(ROOT / name, function) for function in functions)
    assert not is_in_quick_tier(ROOT / "ha")
    assert is_in_quick_tier(ROOT / "http" / "payments")
    assert is_in_quick_tier(ROOT)
    assert len(missing([])) == sum(map(len, JOURNEYS.values()))
