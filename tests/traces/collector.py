"""A small collector: it takes spans over OTLP/HTTP, and refuses or keeps waiting on demand."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attrs
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@attrs.frozen(kw_only=True)
class Received:
    """A span as exported. Ids are hexadecimal; `parent` is empty for the first span of a trace."""

    process: str
    name: str
    kind: int
    trace_id: str
    span_id: str
    parent: str
    attributes: dict[str, Any]
    failed: bool
    links: tuple[str, ...]  # ids of the traces that it is linked to


def _values(pairs: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in pairs}


def _spans(request: ExportTraceServiceRequest) -> list[Received]:
    return [
        Received(
            process=_values(resource.resource.attributes)["service.name"],
            name=span.name,
            kind=span.kind,
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent=span.parent_span_id.hex(),
            attributes=_values(span.attributes),
            failed=span.status.code == span.status.STATUS_CODE_ERROR,
            links=tuple(link.trace_id.hex() for link in span.links),
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


class Collector:
    """Runs in a thread. `bodies` has what was sent, `spans` what is in it."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.spans: list[Received] = []
        self.status = 200
        self._answer = threading.Event()
        self._answer.set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.bodies.append(body)
                collector.headers.append(dict(self.headers))
                collector._answer.wait()
                if collector.status == 200:
                    collector.spans.extend(_spans(ExportTraceServiceRequest.FromString(body)))
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def environment(self) -> dict[str, str]:
        """Return the settings with which a service exports to this server, every 50 ms."""
        return {
            "TRACES_ENABLED": "true",
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }

    def hang(self) -> None:
        """Answer no request until `release`."""
        self._answer.clear()

    def release(self) -> None:
        """Answer the requests that wait, and later ones."""
        self._answer.set()

    def of(self, trace_id: str, name: str) -> list[Received]:
        """Return the spans of a trace with a name, in the order of arrival."""
        return [span for span in list(self.spans) if (span.trace_id, span.name) == (trace_id, name)]

    def texts(self) -> str:
        """Return everything that was sent as JSON, in which ids are base64: their bytes could be any short text."""
        return "\n".join(MessageToJson(ExportTraceServiceRequest.FromString(body)) for body in list(self.bodies))

    def close(self) -> None:
        """Stop the server."""
        self.release()
        self._server.shutdown()
        self._server.server_close()
