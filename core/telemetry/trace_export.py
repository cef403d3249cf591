"""Make spans with OpenTelemetry's SDK and export them over OTLP (docs/traces.md). Imported only if TRACES_ENABLED.

Spans wait in a bounded queue for a thread that exports them, so a slow or dead collector delays nothing. A span for
which the queue has no room is dropped and counted.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import Link, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.re import parse_env_headers

from core.settings.settings import Settings
from core.telemetry import metrics
from core.telemetry.spans import Attributes, Kind

QUEUE_SIZE = 2048  # spans that wait or are being exported
EXPORT_S = 5.0  # for one export with its retries
STOP_S = 2.0
KINDS = {
    "internal": SpanKind.INTERNAL,
    "server": SpanKind.SERVER,
    "client": SpanKind.CLIENT,
    "consumer": SpanKind.CONSUMER,
}
PROPAGATOR = TraceContextTextMapPropagator()


class CountingExporter(SpanExporter):
    """Counts the spans that the collector took, and those that it did not."""

    def __init__(self, inner: SpanExporter) -> None:
        self.taken = 0  # spans whose export has ended; written by the exporting thread only
        self._inner = inner

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export spans once."""
        result = SpanExportResult.FAILURE
        try:
            result = self._inner.export(spans)
        finally:
            self.taken += len(spans)
            outcome = "exported" if result is SpanExportResult.SUCCESS else "failed"
            metrics.TRACE_SPANS.labels(outcome).inc(len(spans))
        return result

    def shutdown(self) -> None:
        """End a running export."""
        self._inner.shutdown()


class BoundedProcessor(BatchSpanProcessor):
    """Queues sampled spans, and drops and counts those for which there is no room.

    The SDK's queue would drop its oldest spans, with a log line for each.
    """

    def __init__(self, exporter: CountingExporter) -> None:
        super().__init__(exporter, max_queue_size=QUEUE_SIZE)
        self._exporter = exporter
        self._queued = 0  # written by the event loop's thread only

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span that has ended."""
        if not (span.context and span.context.trace_flags.sampled):
            return
        if self._queued - self._exporter.taken >= QUEUE_SIZE:
            metrics.TRACE_SPANS.labels("dropped").inc()
            return
        self._queued += 1
        super().on_end(span)


class OpenSpan:
    """A span of OpenTelemetry that has begun."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    @property
    def trace_id(self) -> str | None:
        """The trace's id, as in traceparents."""
        return trace.format_trace_id(self._span.get_span_context().trace_id)

    def rename(self, name: str) -> None:
        """Replace the name."""
        self._span.update_name(name)

    def note(self, attributes: Attributes) -> None:
        """Add attributes."""
        self._span.set_attributes(attributes)


def sampler_of(name: str, ratio: float) -> Sampler:
    """Return the sampler that a value of OTEL_TRACES_SAMPLER names."""
    kind = name.removeprefix("parentbased_")
    own = {"always_on": ALWAYS_ON, "always_off": ALWAYS_OFF, "traceidratio": TraceIdRatioBased(ratio)}[kind]
    return own if kind == name else ParentBased(own)


class OtlpSpans:
    """The spans of one process."""

    def __init__(self, settings: Settings, *, process: str) -> None:
        exporter = OTLPSpanExporter(
            endpoint=f"{settings.otel_exporter_otlp_endpoint.rstrip('/')}/v1/traces",
            headers=parse_env_headers(settings.otel_exporter_otlp_headers, liberal=True),
            timeout=EXPORT_S,
        )
        self._provider = TracerProvider(
            sampler=sampler_of(settings.otel_traces_sampler, float(settings.otel_traces_sampler_arg)),
            resource=Resource.create({"service.namespace": "sesi", "service.name": f"sesi-{process}"}),
            shutdown_on_exit=False,  # it would wait for the collector without a limit
        )
        self._provider.add_span_processor(BoundedProcessor(CountingExporter(exporter)))
        self._tracer = self._provider.get_tracer("sesi")

    @contextlib.contextmanager
    def span(
        self, name: str, *, kind: Kind, parent: str | None, root: bool, attributes: Attributes
    ) -> Iterator[OpenSpan]:
        """See core.telemetry.traces.span. If `parent` belongs to another trace, the span is linked to the current
        one."""
        context, links = Context() if root else None, []
        if parent is not None:
            context = PROPAGATOR.extract({"traceparent": parent}, Context())
            current = trace.get_current_span().get_span_context()
            if current.is_valid and current.trace_id != trace.get_current_span(context).get_span_context().trace_id:
                links.append(Link(current))
        # The text of an exception may quote personal data, so only its type is kept.
        with self._tracer.start_as_current_span(
            name, context, KINDS[kind], attributes, links, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield OpenSpan(span)
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(Status(StatusCode.ERROR))
                raise

    def traceparent(self) -> str | None:
        """Return the current span's traceparent; None without a span."""
        carrier: dict[str, str] = {}
        PROPAGATOR.inject(carrier)
        return carrier.get("traceparent")

    def stop(self) -> None:
        """Export what waits, for STOP_S at most."""
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        ending.join(STOP_S)
