"""Answers that are written without the framework: refusals before the application runs, and its failures."""

import datetime as dt
from collections.abc import Iterable, MutableMapping
from typing import Any

import msgspec

from api import errors
from api.edge.answer_headers import own_headers
from api.edge.asgi import Scope, Send
from api.refusals import INTERNAL_ERROR, Refusal
from core.base.errors import DomainError, Kind
from core.telemetry import logs

Refused = tuple[MutableMapping[str, Any], bytes]  # (the message that starts an answer, its body)

log = logs.get("api")


async def fail(scope: Scope, send: Send, error: Exception) -> None:
    """Log an error that the application did not handle, with its traceback, and answer it."""
    request_id = scope["state"]["request_id"]
    log.error("unexpected", exc_info=error, path=scope["path"], request_id=request_id)
    language = errors.note(scope, INTERNAL_ERROR.code)
    content = msgspec.json.encode(errors.body(INTERNAL_ERROR, language, details={"request_id": request_id}))
    headers = _content_headers(content)
    await send({"type": "http.response.start", "status": INTERNAL_ERROR.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


async def refuse(scope: Scope, send: Send, error: DomainError) -> None:
    """Send the answer to a refused request."""
    start, content = refusal_of_request(scope, error)
    await send(start)
    await send({"type": "http.response.body", "body": content})


def refusal_of_request(scope: Scope, error: DomainError) -> Refused:
    """Return the answer to a refused request."""
    status, content = errors.raw(error, errors.note(scope, error.code))
    headers = _content_headers(content)
    if error.retry_after_seconds is not None:
        headers.append((b"retry-after", str(error.retry_after_seconds).encode()))
    if error.kind is Kind.TOO_LATE:  # otherwise the rest of the body would be read as the next request
        headers.append((b"connection", b"close"))
    return {"type": "http.response.start", "status": status, "headers": headers}, content


def unread_refusal(
    refusal: Refusal,
    headers: Iterable[tuple[bytes, bytes]],
    *,
    now: dt.datetime,
    request_id: str,
    retry_after_s: int | None,
) -> bytes:
    """Return the answer to a request that the application does not get. `headers` are those that were parsed."""
    language = errors.language_of({"headers": headers})
    content = msgspec.json.encode(errors.body(refusal, language, retry_after_seconds=retry_after_s))
    answered = [
        *_content_headers(content),
        *own_headers(request_id, now),
        (b"content-language", language.value.encode()),
        (b"vary", b"Accept-Language"),
        (b"connection", b"close"),
    ]
    if retry_after_s is not None:
        answered.append((b"retry-after", str(retry_after_s).encode()))
    return http_bytes(refusal.status, answered, content)


def _content_headers(content: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]


def http_bytes(status: int, headers: Iterable[tuple[bytes, bytes]], content: bytes) -> bytes:
    """Return the bytes of an answer."""
    head = b"".join(b"%s: %s\r\n" % header for header in headers)
    return b"HTTP/1.1 %d \r\n%s\r\n%s" % (status, head, content)
