"""State machines as tables: each allowed transition with its causes, checked by one function."""

import enum
from collections.abc import Iterable, Mapping
from typing import Self, TypeVar

import attrs

from core.base.languages import Text


class State(enum.StrEnum):
    """A state of a machine.

    `meaning` is its description in docs/product.md. `label` has one to four words for a list in the control center; it
    is None for a state that no list shows.
    """

    meaning: str
    label: Text | None

    def __new__(cls, value: str, meaning: str, label: Text | None = None) -> Self:
        """Create a member from its stored value, its meaning and its label."""
        state = str.__new__(cls, value)
        state._value_ = value
        state.meaning, state.label = meaning, label
        return state


S = TypeVar("S", bound=State)


class Initiator(enum.StrEnum):
    """The user, process or outside system whose action causes a transition."""

    CUSTOMER = "customer"
    MITRA = "mitra"
    OPERATOR = "operator"
    GATEWAY = "gateway"
    API = "api"
    JOBS = "jobs process"


@attrs.define
class EdgeCause:
    """An event that causes a transition, and the initiators that it can come from."""

    event: str
    initiators: tuple[Initiator, ...]

    def __init__(self, event: str, *initiators: Initiator) -> None:
        """Store an event with its initiators."""
        self.event, self.initiators = event, initiators


Edges = Mapping[tuple[S, S], tuple[EdgeCause, ...]]


class NoTransition(Exception):
    """The state machine does not allow this transition: a programming error."""


def check_edge(edges: Edges[S], before: S, after: S) -> S:
    """Return `after`. Raises NoTransition if the table lacks the edge from `before` to `after`."""
    if (before, after) not in edges:
        raise NoTransition(f"{before} -> {after}")
    return after


def final(states: Iterable[S], edges: Edges[S]) -> frozenset[S]:
    """Return the states that no edge leaves."""
    return frozenset(states) - {before for before, _ in edges}
