"""Error answers: the error body, the exception handlers, and the framework's own errors in our form
(docs/protocol.md#http).

The table of HTTP statuses is in `refusals.py`.
"""

from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException

from api.json_reading import MAX_DEPTH
from api.refusals import (
    BODY_TOO_LARGE,
    INTERNAL_ERROR,
    MALFORMED,
    METHOD_NOT_ALLOWED,
    STATUS,
    UNSUPPORTED_MEDIA_TYPE,
    Refusal,
    check,
    refusal_of,
)
from api.structuring import MAX_ERRORS
from core.base import field_messages, http_texts, languages
from core.base.errors import DomainError, Forbidden, NotFound, Unauthenticated, ValidationFailed
from core.base.languages import Language
from core.telemetry import logs, metrics

# HTTP status of the framework's own errors -> our refusal.
FRAMEWORK = {
    refusal.status: refusal
    for refusal in (
        MALFORMED,
        refusal_of(Unauthenticated),
        refusal_of(Forbidden),
        refusal_of(NotFound),
        METHOD_NOT_ALLOWED,
        BODY_TOO_LARGE,
        UNSUPPORTED_MEDIA_TYPE,
        refusal_of(ValidationFailed),
    )
}

MAX_NAME, MAX_REASON = 100, 200  # characters of a bad field's name, and of a message
MAX_BODY = 8_192  # bytes of an error body

log = logs.get("api")


def language_of(scope: Any) -> Language:
    """Return the language of a request's error messages."""
    header = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"accept-language"), None)
    return languages.of_errors(header)


def body(
    refusal: Refusal,
    language: Language,
    *,
    details: dict[str, Any] | None = None,
    retry_after_seconds: int | None = None,
) -> dict[str, Any]:
    """Return the error body as JSON values, at most MAX_BODY bytes long.

    The messages in `details.fields` are given as Texts. The body has at most MAX_ERRORS of them; `details.more` is the
    number of those left out.
    """
    error: dict[str, Any] = {"code": refusal.code, "message": refusal.message.said_in(language)[:MAX_REASON]}
    if details is not None:
        error["details"] = _with_few_fields(details, language) if "fields" in details else details
    if retry_after_seconds is not None:
        error["retry_after_seconds"] = retry_after_seconds
    if details and len(msgspec.json.encode(error)) > MAX_BODY - len('{"error":}'):
        del error["details"]
    return {"error": error}


def body_of(error: DomainError, language: Language) -> dict[str, Any]:
    """Return the error body of an error."""
    return body(
        Refusal(status=STATUS[error.kind], code=error.code, message=error.text),
        language,
        details=error.details,
        retry_after_seconds=error.retry_after_seconds,
    )


def _with_few_fields(details: dict[str, Any], language: Language) -> dict[str, Any]:
    """Cut the list of bad fields and the names in it, which come from the client. Only the rest is translated."""
    room = MAX_BODY - 1024  # 1,024 bytes are for the other parts of the body
    kept: list[dict[str, str]] = []
    for one in details["fields"][:MAX_ERRORS]:
        short = {"field": one["field"][:MAX_NAME], "message": one["message"].said_in(language)[:MAX_REASON]}
        room -= len(msgspec.json.encode(short)) + 1
        if room < 0:
            break
        kept.append(short)
    left_out = len(details["fields"]) - len(kept)
    return {**details, "fields": kept, **({"more": left_out} if left_out else {})}


def note(scope: Any, code: str) -> Language:
    """Count a refusal, add its code to the request's log line, and return the language of its message.

    The gatekeeper reads the language from the state for the `Content-Language` header.
    """
    metrics.REFUSALS.labels(code).inc()
    language = language_of(scope)
    scope["state"]["code"] = code
    scope["state"]["language"] = language
    return language


def raw(error: DomainError, language: Language) -> tuple[int, bytes]:
    """Return (HTTP status, encoded body) of an error, for code outside the framework."""
    return STATUS[error.kind], msgspec.json.encode(body_of(error, language))


def refusal(request: Request[Any, Any, Any], error: DomainError) -> Response[Any]:
    """Return the answer for an error of ours."""
    language = note(request.scope, error.code)
    check(request, STATUS[error.kind], error.code)
    headers = {} if error.retry_after_seconds is None else {"Retry-After": str(error.retry_after_seconds)}
    return Response(body_of(error, language), status_code=STATUS[error.kind], headers=headers)


def framework(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    """Return the answer for an error of the framework, in our form."""
    status = 422 if isinstance(error, ValidationException) else error.status_code
    if status == 422:
        return refusal(request, ValidationFailed(details={"fields": _bad_fields(error)}))
    known = FRAMEWORK.get(status) or Refusal(status=status, code="ERROR", message=http_texts.UNANSWERABLE)
    language = note(request.scope, known.code)
    check(request, status, known.code)
    return Response(body(known, language), status_code=status, headers=dict(error.headers or {}))


def _bad_fields(error: HTTPException) -> list[dict[str, Any]]:
    """Return the bad fields of a framework error. Its own messages exist in English only, so they are not used."""
    extra = error.extra if isinstance(error.extra, list) else []
    fields = [
        {"field": str(item.get("key", "")), "message": field_messages.of_decoder(str(item.get("message", "")))[1]}
        for item in extra
        if isinstance(item, dict)
    ]
    return fields or [{"field": "", "message": field_messages.INVALID}]


def too_deep(request: Request[Any, Any, Any], __: RecursionError) -> Response[Any]:
    """Return the answer for a body that is nested too deeply for the decoder."""
    return refusal(request, ValidationFailed.of("", field_messages.depth(MAX_DEPTH)))


def unexpected(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """Log an unexpected error with its traceback, and return an answer that has only the request's id."""
    request_id = request.scope.get("state", {}).get("request_id", "")
    language = note(request.scope, INTERNAL_ERROR.code)
    log.error("unexpected", exc_info=error, path=request.scope.get("path"), request_id=request_id)
    return Response(
        body(INTERNAL_ERROR, language, details={"request_id": request_id}), status_code=INTERNAL_ERROR.status
    )


HANDLERS: dict[Any, Any] = {
    DomainError: refusal,
    HTTPException: framework,
    RecursionError: too_deep,
    Exception: unexpected,
}


def answer(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """Return the answer for an error, by the handler of its closest class."""
    return next(HANDLERS[cls] for cls in type(error).__mro__ if cls in HANDLERS)(request, error)
