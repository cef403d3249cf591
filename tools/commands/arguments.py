"""Types of command-line arguments: bounded numbers, days and moments."""

import argparse
import datetime as dt
from collections.abc import Callable
from typing import TypeVar

from core.pairing.simulation.rules import MOST_DAYS

N = TypeVar("N", int, float)


def between(read: Callable[[str], N], low: N, high: N) -> Callable[[str], N]:
    """Return an argparse type: a number from `low` to `high`, both included."""

    def checked(text: str) -> N:
        number = read(text)
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"must be from {low:g} to {high:g}")
        return number

    return checked


def moment(text: str) -> dt.datetime:
    """Read an argument that is a moment: ISO 8601 with a zone, such as 2026-11-25T22:00:00+07:00."""
    try:
        at = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError("must be ISO 8601, such as 2026-11-25T22:00:00+07:00") from error
    if at.tzinfo is None:
        raise argparse.ArgumentTypeError("must have a zone, such as Z or +07:00")
    return at


def days(text: str) -> int:
    """Read an argument that is a number of days, such as 28d."""
    number = text.removesuffix("d")
    if not number.isdecimal() or not 1 <= int(number) <= MOST_DAYS:
        raise argparse.ArgumentTypeError(f"must be from 1d to {MOST_DAYS}d")
    return int(number)
