"""State machines as tables: a set of (from, to) edges, checked by one function."""

import enum
from typing import TypeVar

S = TypeVar("S", bound=enum.StrEnum)


class NoTransition(Exception):
    """The state machine does not allow this transition: a programming error."""


def check_edge(edges: frozenset[tuple[S, S]], before: S, after: S) -> S:
    """Return `after`. Raises NoTransition if the table lacks the edge from `before` to `after`."""
    if (before, after) not in edges:
        raise NoTransition(f"{before} -> {after}")
    return after
