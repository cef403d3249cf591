"""The tests on several forked processes."""

import os
import pathlib
import subprocess
import sys

from tests.tiers import ROOT
from tests.workers import WaitingFile, choice

CONFTEST = """
from tests import workers

def pytest_runtestloop(session):
    workers.Run(session, lambda tests: tests[0].path.name).run(2)
    return True
"""
FIRST = """
import os, signal, warnings
import pytest

@pytest.fixture(scope="session", autouse=True)
def ends(tmp_path_factory):
    yield
    tmp_path_factory.mktemp("ended")

def test_passes(): print("written")
def test_fails(): assert 1 == 2
@pytest.mark.skip(reason="not here")
def test_skipped(): pass
def test_warns(): warnings.warn("old name", DeprecationWarning)
def test_kills_its_worker(): os.kill(os.getpid(), signal.SIGKILL)
def test_after_it(): pass
"""
SECOND = "def test_other(tmp_path): assert tmp_path.is_dir()"


def run_files(folder: pathlib.Path, *args: str, **files: str) -> subprocess.CompletedProcess[str]:
    """Run some files of tests on two workers."""
    for name, text in {"conftest": CONFTEST, **files}.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-rA", f"--rootdir={folder}", "-c/dev/null"]
    return subprocess.run(
        [*command, f"--basetemp={folder / 'base'}", *args, str(folder)],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT.parent)},
        cwd=ROOT.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_reports_of_all_workers_reach_the_terminal_and_a_killed_worker_fails_its_test(tmp_path: pathlib.Path) -> None:
    done = run_files(tmp_path, test_first=FIRST, test_second=SECOND)
    assert "2 failed, 4 passed, 1 skipped, 1 warning" in done.stdout, done.stdout + done.stderr
    assert "assert 1 == 2" in done.stdout
    assert "its worker ended with exit code -9" in done.stdout
    assert "DeprecationWarning: old name" in done.stdout
    assert done.stdout.count("written") == 1
    assert done.returncode == 1
    assert [path.name for path in (tmp_path / "base").glob("ended?")] != []  # the fixtures of a session ended


def test_run_ends_after_the_first_failures_if_that_was_asked_for(tmp_path: pathlib.Path) -> None:
    done = run_files(tmp_path, "--maxfail=1", test_some="def test_a(): assert False\ndef test_b(): assert False")
    assert "1 failed" in done.stdout
    assert "stopping after 1 failures" in done.stdout


def test_worker_gets_a_file_of_its_group_then_of_an_unused_one_then_of_the_largest() -> None:
    waiting = [WaitingFile(group, (place,)) for place, group in enumerate("abccbb")]
    assert choice(waiting, "c", {"a"}) == waiting[2]
    assert choice(waiting, "x", {"a", "b"}) == waiting[2]
    assert choice(waiting, None, {"a", "b", "c"}) == waiting[1]
    assert choice([], "a", set()) is None
