"""State machines as tables: a set of (from, to) edges, read by one function."""

import enum
from typing import TypeVar

S = TypeVar("S", bound=enum.StrEnum)


class NoTransition(Exception):
    """A programming error: the edge is not in the table."""


def check_edge(edges: frozenset[tuple[S, S]], before: S, after: S) -> S:
    """Return `after` when the table has the edge. Raises NoTransition otherwise."""
    if (before, after) not in edges:
        raise NoTransition(f"{before} -> {after}")
    return after
