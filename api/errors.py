"""The one table from refusals to answers, the framework's own errors included (contract 2)."""

from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException

from api.answers import (
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
from api.bodies import MAX_DEPTH, MAX_ERRORS
from core.base import field_messages, http_texts, languages, logs, metrics
from core.base.errors import DomainError, Forbidden, NotFound, Unauthenticated, Unavailable, ValidationFailed
from core.base.languages import Language
from core.runtime import AWAY

# What the framework itself refuses.
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

MAX_NAME, MAX_REASON = 100, 200  # characters of a field's name and of what is wrong with it
MAX_BODY = 8_192  # bytes of an error body

log = logs.get("api")


def language_of(scope: Any) -> Language:
    """Return the language of a request's error messages."""
    header = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"accept-language"), None)
    return languages.preferred(header) or languages.DEFAULT


def body(
    refusal: Refusal,
    language: Language,
    *,
    details: dict[str, Any] | None = None,
    retry_after_seconds: int | None = None,
) -> dict[str, Any]:
    """Return the one error body, of at most MAX_BODY bytes.

    The messages in `details.fields` are texts. The body has at most MAX_ERRORS of them; `details.more` is the number of those left out.
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
    """Return the one error body of a refusal."""
    return body(
        Refusal(status=STATUS[error.kind], code=error.code, message=error.text),
        language,
        details=error.details,
        retry_after_seconds=error.retry_after_seconds,
    )


def _with_few_fields(details: dict[str, Any], language: Language) -> dict[str, Any]:
    """Cut the list of bad fields, and the client's own words in it; only what is left is put into words."""
    room = MAX_BODY - 1024  # the rest is for the other parts of the body
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
    """Count a refusal, and let the request's log line have its code; return the language of its message.

    The gatekeeper reads the language from the state as well, and says it in the answer's headers.
    """
    metrics.REFUSALS.labels(code).inc()
    language = language_of(scope)
    scope["state"]["code"] = code
    scope["state"]["language"] = language
    return language


def raw(error: DomainError, language: Language) -> tuple[int, bytes]:
    """Return status and body of a refusal, for places outside the framework."""
    return STATUS[error.kind], msgspec.json.encode(body_of(error, language))


def refusal(request: Request[Any, Any, Any], error: DomainError) -> Response[Any]:
    """Answer a refusal."""
    language = note(request.scope, error.code)
    check(request, STATUS[error.kind], error.code)
    headers = {} if error.retry_after_seconds is None else {"Retry-After": str(error.retry_after_seconds)}
    return Response(body_of(error, language), status_code=STATUS[error.kind], headers=headers)


def framework(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    """Answer what the framework refuses, in our words."""
    status = 422 if isinstance(error, ValidationException) else error.status_code
    if status == 422:
        return refusal(request, ValidationFailed(details={"fields": _bad_fields(error)}))
    known = FRAMEWORK.get(status) or Refusal(status=status, code="ERROR", message=http_texts.UNANSWERABLE)
    language = note(request.scope, known.code)
    check(request, status, known.code)
    return Response(body(known, language), status_code=status, headers=dict(error.headers or {}))


def _bad_fields(error: HTTPException) -> list[dict[str, Any]]:
    """Return the fields that the framework names; it words what is wrong with them in English only."""
    extra = error.extra if isinstance(error.extra, list) else []
    fields = [
        {"field": str(item.get("key", "")), "message": field_messages.of_decoder(str(item.get("message", "")))[1]}
        for item in extra
        if isinstance(item, dict)
    ]
    return fields or [{"field": "", "message": field_messages.INVALID}]


def too_deep(request: Request[Any, Any, Any], __: RecursionError) -> Response[Any]:
    """Answer a body that is nested deeper than any decoder goes."""
    return refusal(request, ValidationFailed.of("", field_messages.depth(MAX_DEPTH)))


def unexpected(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """Answer an unforeseen error: logged once, with its traceback; the client gets the request's id and nothing else."""
    if isinstance(error, AWAY):
        return refusal(request, Unavailable())
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
