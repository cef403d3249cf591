"""Traces: spans of requests, flows, transactions, frames and calls of providers (docs/traces.md).

Off unless TRACES_ENABLED: then these functions do nothing, and OpenTelemetry is not imported. A `traceparent` has the
form of the W3C header. A later flow or another process continues a trace with it.
"""

import contextlib

from core.settings.settings import Settings, SettingsError
from core.telemetry.spans import NOTHING, Attributes, Kind, Span, SpanExporter

_exporting: SpanExporter | None = None


def start(settings: Settings, *, process: str) -> None:
    """Begin to export the spans of this process if TRACES_ENABLED.

    Raises SettingsError if OpenTelemetry is not installed.
    """
    global _exporting  # noqa: PLW0603 - one process exports its spans once
    if not settings.traces_enabled:
        return
    try:
        from core.telemetry.trace_export import OtlpSpans
    except ModuleNotFoundError as error:
        raise SettingsError(
            "TRACES_ENABLED: expected false, because the extra `traces` is not installed (docs/traces.md)"
        ) from error
    _exporting = OtlpSpans(settings, process=process)


def stop() -> None:
    """Export what waits, for two seconds at most, and end."""
    global _exporting
    ending, _exporting = _exporting, None
    if ending is not None:
        ending.stop()


def is_on() -> bool:
    """Return whether this process makes spans."""
    return _exporting is not None


def span(
    name: str,
    *,
    kind: Kind = "internal",
    parent: str | None = None,
    root: bool = False,
    attributes: Attributes | None = None,
) -> contextlib.AbstractContextManager[Span]:
    """Make a span of a block: below the span with the traceparent `parent`, else below the current one.

    Without either, and with `root`, it begins a trace.
    """
    if _exporting is None:
        return NOTHING
    return _exporting.span(name, kind=kind, parent=parent, root=root, attributes=attributes or {})


def span_below(name: str, *, attributes: Attributes | None = None) -> contextlib.AbstractContextManager[Span]:
    """Make a span of a block if it is below another one; it never begins a trace."""
    return NOTHING if traceparent() is None else span(name, attributes=attributes)


def traceparent() -> str | None:
    """Return the current span's traceparent; None without a span."""
    return None if _exporting is None else _exporting.traceparent()
