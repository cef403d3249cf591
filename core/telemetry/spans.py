"""What a process does with spans: the interface of core/telemetry/trace_export.py, and the span of a process without
traces."""

import contextlib
from collections.abc import Mapping
from typing import Literal, Protocol

Kind = Literal["internal", "server", "client", "consumer"]
Attributes = Mapping[str, str | int]


class Span(Protocol):
    """A span that has begun. It takes ids, numbers and names from the code, never personal data."""

    @property
    def trace_id(self) -> str | None: ...
    def rename(self, name: str) -> None: ...
    def note(self, attributes: Attributes) -> None: ...


class SpanExporter(Protocol):
    """Makes spans and exports them."""

    def span(
        self, name: str, *, kind: Kind, parent: str | None, root: bool, attributes: Attributes
    ) -> contextlib.AbstractContextManager[Span]: ...
    def traceparent(self) -> str | None: ...
    def stop(self) -> None: ...


class NoSpan:
    """The span of a process without traces."""

    trace_id: str | None = None

    def rename(self, name: str) -> None:
        """Do nothing."""

    def note(self, attributes: Attributes) -> None:
        """Do nothing."""


NOTHING: contextlib.AbstractContextManager[Span] = contextlib.nullcontext(NoSpan())
