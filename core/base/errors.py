"""Refusals: what the service says no to, with a stable code and a message for people.

A refusal has a kind, never an HTTP number, because there are two transports: `api/errors.py` turns kinds into
statuses, `realtime/commands.py` into error frames. Each refusal is a class beside the rule that raises it.
"""

import enum
from typing import Any, ClassVar


class Kind(enum.Enum):
    """What sort of no it is."""

    MALFORMED = "malformed"  # can't be read at all
    INVALID = "invalid"  # read, but the shape or a value is wrong
    WRONG = "wrong"  # a well-formed answer that is not the right one (a code, say)
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    TOO_LATE = "too_late"  # did not arrive in time
    TOO_LARGE = "too_large"
    LOCKED = "locked"
    TOO_SOON = "too_soon"
    OUTSIDE_FAILED = "outside_failed"  # a third party did not do its part
    UNAVAILABLE = "unavailable"  # a dependency of ours is down; try again


class DomainError(Exception):
    """A refusal. `details` is JSON; `retry_after_seconds` says when to try again."""

    kind: ClassVar[Kind] = Kind.CONFLICT
    code: ClassVar[str] = "CONFLICT"
    message: ClassVar[str] = "The request conflicts with the present state."

    def __init__(
        self,
        message: str | None = None,
        *,
        details: dict[str, Any] | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message or self.message)
        self.details = details
        self.retry_after_seconds = retry_after_seconds


class ValidationFailed(DomainError):
    """The shape of the input is wrong; `details.fields` names each field (contract 2)."""

    kind = Kind.INVALID
    code = "VALIDATION_ERROR"
    message = "Some fields are not valid."

    @classmethod
    def of(cls, field: str, message: str) -> "ValidationFailed":
        """One field, one reason."""
        return cls(details={"fields": [{"field": field, "message": message}]})


class NotFound(DomainError):
    """No such thing, or it belongs to somebody else: nobody learns which (contract 2)."""

    kind = Kind.NOT_FOUND
    code = "NOT_FOUND"
    message = "There is no such thing here."


class Forbidden(DomainError):
    """The caller is known, and this is not for them."""

    kind = Kind.FORBIDDEN
    code = "FORBIDDEN"
    message = "This is not for you."


class Unauthenticated(DomainError):
    """No token, a bad or expired one, or one of a revoked session."""

    kind = Kind.UNAUTHENTICATED
    code = "UNAUTHENTICATED"
    message = "Sign in first."


class OtpDeliveryFailed(DomainError):
    """The provider did not take the code; the request does not count against the limits."""

    kind = Kind.OUTSIDE_FAILED
    code = "OTP_DELIVERY_FAILED"
    message = "The code could not be sent. Try again."


class GatewayUnavailable(DomainError):
    """The payment gateway did not make the invoice; the request is abandoned."""

    kind = Kind.OUTSIDE_FAILED
    code = "GATEWAY_UNAVAILABLE"
    message = "The payment could not be prepared. Try again."


class Unavailable(DomainError):
    """A dependency does not answer; the same request may be sent again."""

    kind = Kind.UNAVAILABLE
    code = "UNAVAILABLE"
    message = "The service can't answer right now. Try again."

    def __init__(self, message: str | None = None, *, retry_after_seconds: int = 1) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)
