"""Health, readiness and metrics on the listeners that aiohttp serves, and their error bodies and headers.

The application's responses get their headers when they are prepared. aiohttp answers requests that its parser refuses
before they reach the application; `HttpConnection` gives these answers the same form.
"""

import asyncio
from typing import Any

import attrs
import msgspec
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from core.base import http_texts, ids, languages
from core.base.clock import as_text
from core.base.errors import NotFound
from core.base.languages import Language, Text
from core.runtime.container import Runtime
from core.security.exposure import ExposureCheck
from core.telemetry import logs, metrics

log = logs.get("http")


@attrs.frozen(kw_only=True)
class HttpRefusal:
    """The status, error code and message of the response to a refused request."""

    status: int
    code: str
    message: Text
    retry_after_seconds: int | None = None


MALFORMED = HttpRefusal(status=400, code="MALFORMED", message=http_texts.MALFORMED)
HEADERS_TOO_LARGE = HttpRefusal(status=431, code="HEADERS_TOO_LARGE", message=http_texts.LINES_TOO_LONG)
INTERNAL_ERROR = HttpRefusal(status=500, code="INTERNAL_ERROR", message=http_texts.INTERNAL_ERROR)
KNOWN = {
    404: HttpRefusal(status=404, code=NotFound.code, message=NotFound.message),
    405: HttpRefusal(status=405, code="METHOD_NOT_ALLOWED", message=http_texts.METHOD_NOT_ALLOWED),
}


def own_headers(runtime: Runtime, request_id: str) -> dict[str, str]:
    """Return the headers of every response. `request_id` is the client's, or "" if it sent none."""
    return {"X-Server-Time": as_text(runtime.now()), "X-Request-Id": ids.request_id(request_id)}


def body_of(refusal: HttpRefusal, language: Language) -> tuple[bytes, dict[str, str]]:
    """Return (error body as JSON, the headers that belong to it)."""
    error: dict[str, Any] = {"code": refusal.code, "message": refusal.message.said_in(language)}
    headers = {"Content-Language": language.value, "Vary": "Accept-Language"}
    if refusal.retry_after_seconds is not None:
        error["retry_after_seconds"] = refusal.retry_after_seconds
        headers["Retry-After"] = str(refusal.retry_after_seconds)
    return msgspec.json.encode({"error": error}), headers


def refuse(request: web.BaseRequest, refusal: HttpRefusal) -> web.Response:
    """Return the response to a refused request, in the language that the request prefers."""
    content, headers = body_of(refusal, languages.of_errors(request.headers.get("Accept-Language")))
    return web.Response(body=content, status=refusal.status, headers=headers, content_type="application/json")


class HttpConnection(web.RequestHandler):
    """A connection that answers requests refused by aiohttp's parser in the application's form."""

    __slots__ = ("_runtime", "host")

    def __init__(self, manager: web.Server, *, runtime: Runtime, **options: Any) -> None:
        super().__init__(manager, **options)
        self._runtime = runtime
        self.host = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the connection and store the peer's address for the log."""
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self.host = str(peer[0]) if peer else ""

    def answer_to(self, refusal: HttpRefusal, language: Language) -> tuple[bytes, dict[str, str]]:
        """Count and log a refusal; return (body, headers without the server's own)."""
        metrics.REFUSALS.labels(refusal.code).inc()
        content, headers = body_of(refusal, language)
        own = own_headers(self._runtime, "")
        logs.write_line(
            {
                "event": "request refused unread",
                "status": refusal.status,
                "code": refusal.code,
                "address": self.host,
                "request_id": own["X-Request-Id"],
            },
            at=self._runtime.clock.real_now(),
        )
        return content, {**own, **headers}

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer a request that the parser refused with the usual error body, without a traceback in the log.

        Unexpected errors (status 500 and above) are logged with their traceback.
        """
        if status >= 500:
            log.error("unexpected", exc_info=exc)
            if request.writer.output_size > 0:
                raise ConnectionError("a part of the answer has been sent")
            refusal = INTERNAL_ERROR
        elif isinstance(exc, LineTooLong) or "Too many headers" in (message or ""):
            metrics.LIMITED.labels("http_headers").inc()
            refusal = HEADERS_TOO_LARGE
        else:
            refusal = MALFORMED
        content, headers = self.answer_to(refusal, languages.of_errors(request.headers.get("Accept-Language")))
        answer = web.Response(body=content, status=refusal.status, headers=headers, content_type="application/json")
        answer.force_close()
        return answer


class HttpServer(web.Server):
    """A server whose connections are made by `kind`, with `options` as further arguments."""

    def __init__(self, made: web.Server, kind: type[HttpConnection], **options: Any) -> None:
        super().__init__(made.request_handler, request_factory=made.request_factory, **made._kwargs)
        self._kind = kind
        self._options = options

    def __call__(self) -> HttpConnection:
        """Return the protocol of a new connection."""
        return self._kind(self, loop=self._loop, **self._options, **self._kwargs)


class HttpRunner(web.AppRunner):
    """Runs an application over HttpConnection."""

    def __init__(self, app: web.Application, runtime: Runtime, **options: Any) -> None:
        super().__init__(app, access_log=None, keepalive_timeout=runtime.settings.keep_alive_seconds, **options)
        self._runtime = runtime

    async def _make_server(self) -> web.Server:
        return HttpServer(await super()._make_server(), HttpConnection, runtime=self._runtime)


def exposure_of(check: ExposureCheck, path: str, peer: str, headers: Any) -> HttpRefusal | None:
    """Return why a request is refused for where it comes from, or None. `headers` are aiohttp's."""
    refused = check.refusal_of(
        path=path,
        client=peer,
        forwarded=headers.getall("X-Forwarded-For", ()),
        host=headers.get("Host"),
        scheme=headers.get("X-Forwarded-Proto"),
    )
    return None if refused is None else HttpRefusal(status=403, code=refused.code, message=refused.message)


@web.middleware
async def in_our_words(request: web.Request, handler: Any) -> web.StreamResponse:
    """Give aiohttp's own refusals, such as 404 and 405, the usual error body."""
    try:
        return await handler(request)
    except web.HTTPException as refused:
        unknown = HttpRefusal(status=refused.status, code="ERROR", message=http_texts.UNANSWERABLE)
        answer = refuse(request, KNOWN.get(refused.status, unknown))
        if "Allow" in refused.headers:
            answer.headers["Allow"] = refused.headers["Allow"]
        return answer


async def healthz(_: web.Request) -> web.Response:
    """Answer that the process runs."""
    return web.json_response({"status": "ok"})


async def prometheus(_: web.Request) -> web.Response:
    """Answer with the metrics of the process."""
    return web.Response(body=metrics.exposition(), content_type="text/plain")


def add_probes(app: web.Application, runtime: Runtime) -> None:
    """Add /healthz, /readyz and /metrics, the error body for all other paths, and the headers of every response."""

    async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
        for name, value in own_headers(runtime, request.headers.get("X-Request-Id", "")).items():
            response.headers.setdefault(name, value)

    async def readyz(_: web.Request) -> web.Response:
        ready, degraded, why = await runtime.readiness.check()
        if not ready:
            return web.json_response({"ready": False, "reason": why}, status=503, headers={"Retry-After": "1"})
        return web.json_response({"ready": True, "degraded": degraded})

    check = ExposureCheck(runtime.settings)

    @web.middleware
    async def from_here(request: web.Request, handler: Any) -> web.StreamResponse:
        refused = exposure_of(check, request.path, request.remote or "", request.headers)
        return await handler(request) if refused is None else refuse(request, refused)

    app.middlewares.extend([from_here, in_our_words])
    app.on_response_prepare.append(add_headers)
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", prometheus)
