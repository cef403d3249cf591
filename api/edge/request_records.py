"""Record each request: metrics and a log line."""

import contextlib

from litestar import Litestar
from prometheus_client import Counter

from api.edge.asgi import Scope, host_of, path_of
from core.base.clock import Clock
from core.security.exposure import PROBES
from core.telemetry import logs, metrics, traces
from core.telemetry.spans import NOTHING, Span


class RequestRecords:
    """The metrics and the request log of one listener."""

    def __init__(self, app: Litestar, clock: Clock, *, listener: str) -> None:
        self._clock = clock
        self._listener = listener
        self._routes = frozenset(route.path for route in app.routes if "{" not in route.path)
        self._counters: dict[tuple[str, str, int], Counter] = {}  # a cache: the lookup by labels takes longer
        self._seconds = metrics.REQUEST_SECONDS.labels(listener)

    def _route(self, scope: Scope) -> str:
        """Return the route's template, such as `/api/x/{id}`.

        Before routing it is known only for paths without parameters.
        """
        template = scope.get("path_template")
        if template is None:
            path = path_of(scope)
            template = path if path in self._routes else "unknown"
        return template

    def span(self, scope: Scope) -> contextlib.AbstractContextManager[Span]:
        """Make the span of a request. It always begins a trace: a client's `traceparent` is ignored."""
        if not traces.is_on() or path_of(scope) in PROBES:
            return NOTHING
        return traces.span(scope["method"], kind="server", root=True, attributes={"sesi.listener": self._listener})

    def trace(self, span: Span, scope: Scope, status: int) -> None:
        """Add the route and the status to a request's span."""
        if span.trace_id is not None:
            route = self._route(scope)
            span.rename(f"{scope['method']} {route}")
            span.note(
                {"http.request.method": scope["method"], "http.route": route, "http.response.status_code": status}
            )

    def log(self, scope: Scope, caller: dict[str, str], **figures: float) -> None:
        """Write the request's log line: without query and body, and with the route's template instead of the path.

        Probes come every second, so those that succeed have the level debug.
        """
        state = scope["state"]
        level = "debug" if figures["status"] == 200 and path_of(scope) in PROBES else "info"
        line = {
            "event": "request",
            "listener": self._listener,
            "method": scope["method"],
            "route": self._route(scope),
            "address": host_of(scope),
            "request_id": state["request_id"],
            "bytes_in": state.get("body_size", 0),
            **figures,
            **caller,
        }
        if state.get("trace_id") is not None:
            line["trace_id"] = state["trace_id"]
        if "code" in state:
            line["code"] = state["code"]
        logs.write_line(line, at=self._clock.real_now(), level=level)

    def count(self, scope: Scope, status: int, seconds: float) -> None:
        """Count the request in the metrics."""
        key = (scope["method"], self._route(scope), status)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = metrics.REQUESTS.labels(self._listener, key[0], key[1], str(status))
        counter.inc()
        self._seconds.observe(seconds)
