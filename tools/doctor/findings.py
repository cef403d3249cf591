"""What a check of `sesi doctor` finds, and how serious it is."""

import enum
from collections.abc import Iterable

import attrs

from core.settings.settings import Settings


class Result(enum.StrEnum):
    """How serious a finding is. Only a failure changes the exit code, unless warnings are to count as well."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@attrs.frozen
class Finding:
    """One result of a check. The text of a warning or a failure ends with the fix."""

    check: str
    result: Result
    text: str


def ok(check: str, text: str) -> Finding:
    """Return that a check passed."""
    return Finding(check, Result.OK, text)


def warning(check: str, text: str) -> Finding:
    """Return what is allowed but risky."""
    return Finding(check, Result.WARNING, text)


def failure(check: str, text: str) -> Finding:
    """Return what does not work or may lose data."""
    return Finding(check, Result.FAILURE, text)


def or_start(settings: Settings) -> str:
    """Return the other way to a server that does not answer, which production does not have."""
    return "" if settings.production else ", or start `sesi up`"


def problems_or(state: Finding, *, failures: Iterable[str] = (), warnings: Iterable[str] = ()) -> list[Finding]:
    """Return one finding for each problem, or `state` if there are none."""
    found = [failure(state.check, text) for text in failures] + [warning(state.check, text) for text in warnings]
    return found or [state]
