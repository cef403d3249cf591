"""Bounded numbers as command-line arguments."""

import argparse
from collections.abc import Callable
from typing import TypeVar

N = TypeVar("N", int, float)


def between(read: Callable[[str], N], low: N, high: N) -> Callable[[str], N]:
    """Return an argparse type: a number from `low` to `high`, both included."""

    def checked(text: str) -> N:
        number = read(text)
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"must be from {low:g} to {high:g}")
        return number

    return checked
