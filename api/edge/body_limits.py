"""Limits of request bodies: bytes, and time to arrive (docs/protocol.md#http)."""

import asyncio
from collections.abc import Callable, MutableMapping
from typing import Any

from api.edge.asgi import Receive, Scope, path_of
from api.refusals import BODY_TOO_LARGE, REQUEST_TIMEOUT, WEBHOOK
from core.base.errors import DomainError, Kind
from core.telemetry import metrics

MAX_BODY = 65_536
# Bytes read of a webhook body with a valid token, so that the call can be answered; only the first MAX_BODY + 1 are
# kept. Without a valid token reading stops after MAX_BODY.
MAX_READ = 8 * 1024 * 1024
BODY_S = 15.0  # real time in which a body must arrive


class TooLarge(DomainError):
    """The body is larger than the limit."""

    kind = Kind.TOO_LARGE
    code, message = BODY_TOO_LARGE.code, BODY_TOO_LARGE.message


class RequestTimeout(DomainError):
    """The body has not arrived in time."""

    kind = Kind.TOO_LATE
    code, message = REQUEST_TIMEOUT.code, REQUEST_TIMEOUT.message


async def read_in_time(
    scope: Scope, receive: Receive, headers: dict[str, str], *, most: Callable[[], int]
) -> bytes | None:
    """Read the body within BODY_S; of a webhook call over MAX_BODY, about `most()` bytes. None if the client has
    disconnected.

    Raises TooLarge, or RequestTimeout if the body has not arrived in time.
    """
    announced = headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced) > MAX_BODY and not _is_webhook(scope):
        raise TooLarge
    if not announced and "transfer-encoding" not in headers:
        return await _read(scope, receive, most)  # without a body this does not wait
    try:
        async with asyncio.timeout(BODY_S):
            return await _read(scope, receive, most)
    except TimeoutError as error:
        metrics.LIMITED.labels("http_body_seconds").inc()
        raise RequestTimeout from error


def _is_webhook(scope: Scope) -> bool:
    return path_of(scope) == WEBHOOK


async def _read(scope: Scope, receive: Receive, most: Callable[[], int]) -> bytes | None:
    """Read the body; of a webhook call over MAX_BODY, about `most()` bytes. None if the client has disconnected.

    Raises TooLarge.
    """
    webhook = _is_webhook(scope)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY and not webhook:
            raise TooLarge
        if size - len(part) <= MAX_BODY:
            parts.append(part)
        if size > MAX_BODY and size > most():
            break  # the rest is not read: the call is stored, truncated, and refused
        if not message.get("more_body"):
            break
    body = b"".join(parts)
    return body[: MAX_BODY + 1] if webhook else body


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the application a body that was read before."""
    given = False

    async def again() -> MutableMapping[str, Any]:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again
