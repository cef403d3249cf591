"""Reports of the progress of long work, for those who wait for it."""

from collections.abc import Callable

Report = Callable[[float, str], None]
"""Takes the share of the work that is done, 0 to 1, and the step that begins now."""


def unreported(share: float, step: str) -> None:
    """Report to no one."""


def part(report: Report, begin: float, end: float) -> Report:
    """Return a report for a part of the work, which takes it from one share of the whole to another."""
    return lambda share, step: report(begin + share * (end - begin), step)


def left(share: float, elapsed_s: float, since_s: float = 0.0, expected_s: float = 0.0) -> str:
    """Return the remaining time in words, if the rest goes as fast as the share that is done.

    `elapsed_s` is the time until that share was done, and `since_s` the time since then. `expected_s` is what the whole
    is expected to take, as long as nothing is done; 0: unknown.
    """
    if share > 0.0:
        expected_s = elapsed_s / share
    elif expected_s <= elapsed_s + since_s:  # unknown, or a wrong expectation
        return ""
    seconds = max(0.0, expected_s - elapsed_s - since_s)
    if seconds < 90:
        return f"about {max(1, round(seconds))} s left"
    return f"about {round(seconds / 60)} min left"
