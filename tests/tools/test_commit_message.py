"""The check of commit messages that the commit-msg hook runs (CONTRIBUTING.md)."""

import pathlib
import subprocess
import sys

import pytest

from tools.checks.commit_message import LONGEST, problems

GOOD = "realtime: retry a failed heartbeat write"


@pytest.mark.parametrize(
    "message",
    [
        GOOD,
        f"{GOOD}\n",
        f"{GOOD}\n\nA failed write counted as a heartbeat.\n# Please enter the commit message\n",
        "control center: show goodbyes on the session's page",
        "realtime, jobs: describe frames in plain English",
        "core/bus: pass the lease on",
        "docs: need no network",
        f"a: {'x' * (LONGEST - 3)}",
        'Revert "realtime: retry a failed heartbeat write"',
        "Merge branch 'main'",
        "fixup! whatever it was.",
    ],
)
def test_good_message_has_no_problem(message: str) -> None:
    assert problems(message) == []


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("", "must be `area: imperative phrase`"),
        ("retry a failed heartbeat write", "must be `area: imperative phrase`"),
        ("Realtime: retry a failed write", "must be `area: imperative phrase`"),
        ("realtime:retry a failed write", "must be `area: imperative phrase`"),
        ("realtime: retry a failed write.", "must not end with a full stop"),
        ("realtime: Retry a failed write", "not `Retry`"),
        ("realtime: retried a failed write", "not `retried`"),
        ("realtime: retrying a failed write", "not `retrying`"),
        ("realtime: retries a failed write", "not `retries`"),
        (f"a: {'x' * (LONGEST - 2)}", "at most 72 characters, and has 73"),
        (f"{GOOD}\nA failed write counted.", "an empty line must follow"),
    ],
)
def test_problem_of_a_message_is_named(message: str, problem: str) -> None:
    found = problems(message)
    assert len(found) == 1
    assert problem in found[0]


def test_what_a_verbose_commit_shows_is_no_part_of_the_message() -> None:
    shown = "# ------------------------ >8 ------------------------\ndiff --git a/x b/x"
    assert problems(f"{GOOD}\n{shown}") == []


@pytest.mark.parametrize(("subject", "code"), [(GOOD, 0), ("Retry.", 1)])
def test_hook_exits_with_1_if_there_is_a_problem(tmp_path: pathlib.Path, subject: str, code: int) -> None:
    file = tmp_path / "COMMIT_EDITMSG"
    file.write_text(subject)
    command = [sys.executable, "-m", "tools.checks.commit_message", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert done.stderr.count("commit message: ") == (0 if code == 0 else 2)
