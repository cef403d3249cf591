"""The one table from refusals to answers, the framework's own errors included (contract 2)."""

from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException

from api.answers import INTERNAL_ERROR, STATUS, check
from api.bodies import MAX_ERRORS
from core.base import logs, metrics
from core.base.errors import DomainError, Unavailable
from core.runtime import AWAY

# What the framework itself refuses.
FRAMEWORK = {
    400: ("MALFORMED", "The request can't be read."),
    401: ("UNAUTHENTICATED", "Sign in first."),
    403: ("FORBIDDEN", "This is not for you."),
    404: ("NOT_FOUND", "There is no such thing here."),
    405: ("METHOD_NOT_ALLOWED", "This address does not take that method."),
    413: ("BODY_TOO_LARGE", "The body is over 64 KiB."),
    415: ("UNSUPPORTED_MEDIA_TYPE", "Send JSON."),
    422: ("VALIDATION_ERROR", "Some fields are not valid."),
}

MAX_NAME, MAX_REASON = 100, 200  # characters of a field's name and of what is wrong with it
MAX_BODY = 8_192  # bytes of an error body

log = logs.get("api")


def body(
    code: str, message: str, *, details: dict[str, Any] | None = None, retry_after_seconds: int | None = None
) -> dict[str, Any]:
    """Return the one error body, of at most MAX_BODY bytes.

    `details.fields` has at most MAX_ERRORS entries; `details.more` is the number of those left out.
    """
    error: dict[str, Any] = {"code": code, "message": message[:MAX_REASON]}
    if details is not None:
        error["details"] = _with_few_fields(details) if "fields" in details else details
    if retry_after_seconds is not None:
        error["retry_after_seconds"] = retry_after_seconds
    if details and len(msgspec.json.encode(error)) > MAX_BODY - len('{"error":}'):
        del error["details"]
    return {"error": error}


def _with_few_fields(details: dict[str, Any]) -> dict[str, Any]:
    """Cut the list of bad fields, and the client's own words in it."""
    room = MAX_BODY - 1024  # the rest is for the other parts of the body
    kept: list[dict[str, str]] = []
    for one in details["fields"][:MAX_ERRORS]:
        short = {"field": one["field"][:MAX_NAME], "message": one["message"][:MAX_REASON]}
        room -= len(msgspec.json.encode(short)) + 1
        if room < 0:
            break
        kept.append(short)
    left_out = len(details["fields"]) - len(kept)
    return {**details, "fields": kept, **({"more": left_out} if left_out else {})}


def note(scope: Any, code: str) -> None:
    """Count a refusal, and let the request's log line have its code."""
    metrics.REFUSALS.labels(code).inc()
    scope["state"]["code"] = code


def raw(error: DomainError) -> tuple[int, bytes]:
    """Return status and body of a refusal, for places outside the framework."""
    content = body(error.code, str(error), details=error.details, retry_after_seconds=error.retry_after_seconds)
    return STATUS[error.kind], msgspec.json.encode(content)


def refusal(request: Request[Any, Any, Any], error: DomainError) -> Response[Any]:
    """Answer a refusal."""
    note(request.scope, error.code)
    check(request, STATUS[error.kind], error.code)
    headers = {} if error.retry_after_seconds is None else {"Retry-After": str(error.retry_after_seconds)}
    return Response(
        body(error.code, str(error), details=error.details, retry_after_seconds=error.retry_after_seconds),
        status_code=STATUS[error.kind],
        headers=headers,
    )


def framework(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    """Answer what the framework refuses, in our words."""
    status = 422 if isinstance(error, ValidationException) else error.status_code
    code, message = FRAMEWORK.get(status, ("ERROR", "The request can't be answered."))
    details = None
    if status == 422:
        extra = error.extra if isinstance(error.extra, list) else []
        fields = [
            {"field": str(item.get("key", "")), "message": str(item.get("message", ""))}
            for item in extra
            if isinstance(item, dict)
        ]
        details = {"fields": fields or [{"field": "", "message": "is not valid"}]}
    note(request.scope, code)
    check(request, status, code)
    return Response(body(code, message, details=details), status_code=status, headers=dict(error.headers or {}))


def too_deep(request: Request[Any, Any, Any], __: RecursionError) -> Response[Any]:
    """Answer a body that is nested deeper than any decoder goes."""
    note(request.scope, "VALIDATION_ERROR")
    check(request, 422, "VALIDATION_ERROR")
    details = {"fields": [{"field": "", "message": "is nested too deeply"}]}
    return Response(body("VALIDATION_ERROR", FRAMEWORK[422][1], details=details), status_code=422)


def unexpected(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """Answer what nobody foresaw: logged once, with its traceback; the client gets the request's id and nothing else."""
    if isinstance(error, AWAY):
        return refusal(request, Unavailable())
    request_id = request.scope.get("state", {}).get("request_id", "")
    note(request.scope, INTERNAL_ERROR.code)
    log.error("unexpected", exc_info=error, path=request.scope.get("path"), request_id=request_id)
    return Response(
        body(INTERNAL_ERROR.code, INTERNAL_ERROR.message, details={"request_id": request_id}),
        status_code=INTERNAL_ERROR.status,
    )


HANDLERS: dict[Any, Any] = {
    DomainError: refusal,
    HTTPException: framework,
    RecursionError: too_deep,
    Exception: unexpected,
}
