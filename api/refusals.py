"""The HTTP status of each kind of refusal, and the refusals that each route may answer (docs/errors.md).

The OpenAPI documents are made from these. Each refusal is checked against them when it is sent, so that the documents
can't omit one.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import attrs
from litestar import Request

from api.auth import Access
from api.route_signatures import Signature, signature_of
from core.accounts.operators.rules import PasswordChangeRequired
from core.accounts.operators.totp import TotpEnrolmentRequired, TotpRequired
from core.base import http_texts
from core.base.actor import UserType
from core.base.errors import (
    DomainError,
    Forbidden,
    Kind,
    NotFound,
    Repeat,
    Unauthenticated,
    Unavailable,
    ValidationFailed,
)
from core.base.languages import Text
from core.bus.rate_limit import RateLimited
from core.security.exposure import PROBES, ExposedDevelopment, HttpsRequired
from core.telemetry import logs, metrics

STATUS = {
    Kind.MALFORMED: 400,
    Kind.WRONG: 400,
    Kind.UNAUTHENTICATED: 401,
    Kind.FORBIDDEN: 403,
    Kind.NOT_FOUND: 404,
    Kind.CONFLICT: 409,
    Kind.TOO_LATE: 408,
    Kind.TOO_LARGE: 413,
    Kind.INVALID: 422,
    Kind.LOCKED: 423,
    Kind.TOO_SOON: 429,
    Kind.OUTSIDE_FAILED: 502,
    Kind.UNAVAILABLE: 503,
}
WAITS = frozenset({423, 429, 503})  # all of these come with `Retry-After`

log = logs.get("api")


@attrs.frozen(kw_only=True)
class Refusal:
    """The HTTP form of a refusal. `waits`: it comes with `Retry-After`."""

    status: int
    code: str
    message: Text = attrs.field(eq=False)
    waits: bool = attrs.field(eq=False, default=False)


INTERNAL_ERROR = Refusal(status=500, code="INTERNAL_ERROR", message=http_texts.INTERNAL_ERROR)
BODY_TOO_LARGE = Refusal(status=413, code="BODY_TOO_LARGE", message=http_texts.BODY_TOO_LARGE)
MALFORMED = Refusal(status=400, code="MALFORMED", message=http_texts.MALFORMED)
REQUEST_TIMEOUT = Refusal(status=408, code="REQUEST_TIMEOUT", message=http_texts.REQUEST_TIMEOUT)
HEADERS_TOO_LARGE = Refusal(status=431, code="HEADERS_TOO_LARGE", message=http_texts.HEADERS_TOO_LARGE)
METHOD_NOT_ALLOWED = Refusal(status=405, code="METHOD_NOT_ALLOWED", message=http_texts.METHOD_NOT_ALLOWED)
UNSUPPORTED_MEDIA_TYPE = Refusal(status=415, code="UNSUPPORTED_MEDIA_TYPE", message=http_texts.UNSUPPORTED_MEDIA_TYPE)
# The gateway's calls and the health checks have no rate limit.
WEBHOOK = "/api/shared/payment/webhooks/gateway"
SIGN_IN = frozenset({"/internal/auth/login", "/internal/auth/totp/verify"})
UNLIMITED = frozenset({"/healthz", WEBHOOK})


def refusal_of(error: type[DomainError]) -> Refusal:
    """Return the HTTP form of an error class."""
    status = STATUS[error.kind]
    waits = status in WAITS or (error.kind is Kind.CONFLICT and error.repeat is Repeat.WAIT)
    return Refusal(status=status, code=error.code, message=error.message, waits=waits)


def _of_access(access: Access) -> Iterator[Refusal]:
    """Yield the refusals that follow from a route's access."""
    if access.kinds:
        yield from (refusal_of(Unauthenticated), refusal_of(Forbidden))
    if UserType.OPERATOR in access.kinds and not access.enrolling:
        yield refusal_of(TotpEnrolmentRequired)
    if UserType.OPERATOR in access.kinds and not access.password_due:
        yield refusal_of(PasswordChangeRequired)
    if access.step_up:
        yield refusal_of(TotpRequired)


def _of_request(handler: Any, access: Access, signature: Signature) -> Iterator[Refusal]:
    """Yield the refusals that follow from a route's method, parameters and body."""
    yield from (INTERNAL_ERROR, refusal_of(Unavailable), BODY_TOO_LARGE)
    if not PROBES & set(handler.paths):
        yield from (refusal_of(ExposedDevelopment), refusal_of(HttpsRequired))
    if not UNLIMITED & set(handler.paths):
        yield refusal_of(RateLimited)
    if "GET" not in handler.http_methods:
        yield from (MALFORMED, REQUEST_TIMEOUT)
    takes_body = "GET" not in handler.http_methods and not access.foreign_body
    if takes_body:
        yield UNSUPPORTED_MEDIA_TYPE
    if takes_body or signature.query:
        yield refusal_of(ValidationFailed)
    if signature.path or signature.query:  # a NUL in the path or query is answered with NotFound
        yield refusal_of(NotFound)


@cache
def refusals_of(handler: Any) -> frozenset[Refusal]:
    """Return every refusal that a route may answer."""
    access: Access = handler.opt["access"]
    declared = {refusal_of(error) for error in access.refusals}
    return frozenset(declared.union(_of_access(access), _of_request(handler, access, signature_of(handler))))


def check(request: Request[Any, Any, Any], status: int, code: str) -> None:
    """Count and log a refusal that the route does not declare. The answer is sent anyway."""
    handler: Any = request.scope.get("route_handler")
    if handler is None or "access" not in handler.opt:
        return  # no such path or method, or a route of the framework
    if any((known.status, known.code) == (status, code) for known in refusals_of(handler)):
        return
    route = str(request.scope.get("path_template") or request.scope.get("path"))
    metrics.UNDOCUMENTED_ANSWERS.labels(route, str(status), code).inc()
    log.error("a refusal is missing from the OpenAPI document", route=route, status=status, code=code)
