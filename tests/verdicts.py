"""Failures that decide a run without a second try, and the record of a run's outcomes.

A violation of money, order or a race can be a matter of chance: a repetition that passes does not disprove it. So a test
that finds one raises Violation, and the run stops.
"""

import json
import pathlib
import traceback
from collections.abc import Generator, Sequence
from typing import Any

import attrs
import pytest

from tests.tiers import ROOT

RACES = ROOT / "faults" / "races"


class Violation(AssertionError):
    """What must never happen was found by an audit, by a judge, or by comparing frames with their declaration."""


class NeverSeen(AssertionError):
    """A condition did not hold in time, which a busy machine can cause."""


def check_books(report: Any, *, after: Sequence[str] = ()) -> None:
    """Check that a ledger audit found nothing. `report`: the answer of the audit's route, or core's report.

    `after`: the tests since the audit before. Raises Violation.
    """
    found = report["violations"] if isinstance(report, dict) else report.violations
    if found:
        raise Violation(f"the ledger audit found {found}{f', after {after}' if len(after) > 1 else ''}")


def _is_race(item: pytest.Item) -> bool:
    """Return whether a test compares the outcomes of calls at the same time: it uses `at_once` or stands in `races`."""
    if not isinstance(item, pytest.Function):
        return False
    return item.path.is_relative_to(RACES) or "at_once" in item.function.__code__.co_names


def is_verdict(item: pytest.Item, error: BaseException) -> bool:
    """Return whether a test's failure is final: a Violation, or a wrong outcome of a race."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_verdict(item, inner) for inner in error.exceptions)
    if isinstance(error, NeverSeen):
        return False
    return isinstance(error, Violation) or (
        isinstance(error, AssertionError) and _is_race(item) and _is_own(item, error)
    )


def _is_own(item: pytest.Item, error: BaseException) -> bool:
    """Return whether an assertion of the test's own file failed, and not one of a helper that waits."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and pathlib.Path(frames[-1].filename) == item.path


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Mark the report of a failure that decides the run, and stop."""
    report = yield
    if report.failed and call.excinfo is not None and is_verdict(item, call.excinfo.value):
        report.verdict = True
        item.session.shouldfail = f"{item.nodeid} found a violation, which decides the run"
    return report


@attrs.define(eq=False)  # pytest keeps plugins in sets
class Outcomes:
    """Write a line of JSON for each failed test and each test that took long, when it ends."""

    path: pathlib.Path
    long_s: float

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a report that the run has to come back to."""
        is_long = report.when == "call" and report.duration > self.long_s
        if not report.failed and not is_long:
            return
        line = {
            "test": report.nodeid,
            "when": report.when,
            "failed": report.failed,
            "slow": "slow" in report.keywords,
            "verdict": getattr(report, "verdict", False),
            "seconds": round(report.duration, 2),
            "trace": report.longreprtext if report.failed else "",
        }
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
