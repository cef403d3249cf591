"""Spans without a service: what is kept of an error, and what a process without traces does."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from core.settings.environment import read
from core.settings.settings import SettingsError
from core.telemetry import traces
from core.telemetry.spans import NOTHING
from core.telemetry.trace_export import OtlpSpans

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SERVERS = {"DATABASE_URL": "postgresql://sesi@localhost/sesi", "REDIS_URL": "redis://localhost"}


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Make spans in this process, and yield where they end up."""
    made = OtlpSpans(read({**SERVERS, "TRACES_ENABLED": "true"}), process="test")
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    made._tracer = provider.get_tracer("test")
    monkeypatch.setattr(traces, "_exporting", made)
    yield kept
    made.stop()


def by_name(exported: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    """Return the spans that have ended."""
    return {span.name: span for span in exported.get_finished_spans()}


def test_error_leaves_its_type_and_no_text(exported: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="phone of Dewi"), traces.span("flow"):
        raise ValueError("phone of Dewi")
    (span,) = exported.get_finished_spans()
    assert not span.status.is_ok
    assert "phone of Dewi" not in span.to_json()
    assert dict(span.attributes or {}) == {"error.type": "ValueError"}


def test_parent_continues_another_trace_and_links_the_current_one(exported: InMemorySpanExporter) -> None:
    with traces.span("request"), traces.span("flow", parent=PARENT):
        assert traces.traceparent() is not None
        with traces.span_below("transaction"):
            pass
    found = by_name(exported)
    flow, request, transaction = found["flow"], found["request"], found["transaction"]
    assert flow.context is not None
    assert flow.parent is not None
    assert transaction.parent is not None
    assert request.context is not None
    assert f"{flow.context.trace_id:032x}" == PARENT.split("-")[1]
    assert f"{flow.parent.span_id:016x}" == PARENT.split("-")[2]
    assert [link.context.trace_id for link in flow.links] == [request.context.trace_id]
    assert transaction.parent.span_id == flow.context.span_id


def test_root_begins_a_trace_inside_another_one(exported: InMemorySpanExporter) -> None:
    with traces.span("request"), traces.span("other", root=True):
        pass
    assert by_name(exported)["other"].parent is None


def test_span_below_without_a_span_makes_none(exported: InMemorySpanExporter) -> None:
    with traces.span_below("transaction"):
        pass
    assert exported.get_finished_spans() == ()


def test_wrong_traceparent_begins_a_trace(exported: InMemorySpanExporter) -> None:
    with traces.span("flow", parent="no traceparent"):
        pass
    assert by_name(exported)["flow"].parent is None


def test_process_without_traces_makes_no_spans() -> None:
    traces.start(read(SERVERS), process="test")
    assert not traces.is_on()
    assert traces.traceparent() is None
    assert traces.span("flow", parent=PARENT) is NOTHING
    assert traces.span_below("transaction") is NOTHING
    with traces.span("flow") as span:
        span.rename("other")
        span.note({"sesi.sockets": 1})
        assert span.trace_id is None
    traces.stop()


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "core.telemetry.trace_export", None)
    with pytest.raises(SettingsError, match=r"TRACES_ENABLED: .*the extra `traces`"):
        traces.start(read({**SERVERS, "TRACES_ENABLED": "true"}), process="test")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ("OTEL_TRACES_SAMPLER_ARG", "1.5"),
        ("OTEL_TRACES_SAMPLER_ARG", "half"),
        ("OTEL_TRACES_SAMPLER_ARG", "nan"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
    ],
)
def test_wrong_variable_of_opentelemetry_is_refused_only_while_traces_are_on(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name}: expected "):
        read({**SERVERS, "TRACES_ENABLED": "true", name: value})
    assert not read({**SERVERS, name: value}).traces_enabled
