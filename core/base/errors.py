"""Refusals: errors with a stable code and a message in both languages (docs/errors.md).

A refusal has a kind, never an HTTP status, because there are two transports: `api/refusals.py` turns kinds into
statuses, and `realtime/commands.py` turns refusals into error frames. Each refusal is a class in the module of its
rule.
"""

import enum
from typing import Any, ClassVar

from core.base.languages import Language, Text


class Kind(enum.Enum):
    """The kinds of refusals, from which a transport derives its status."""

    MALFORMED = "malformed"  # the request can't be parsed
    INVALID = "invalid"  # parsed, but its shape or a value is wrong
    WRONG = "wrong"  # valid in form but incorrect, such as a wrong code
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    TOO_LATE = "too_late"  # the request did not arrive in time
    TOO_LARGE = "too_large"
    LOCKED = "locked"
    TOO_SOON = "too_soon"
    OUTSIDE_FAILED = "outside_failed"  # a provider failed or refused
    UNAVAILABLE = "unavailable"  # a dependency of the service is down; the client may retry


class Repeat(enum.Enum):
    """Whether the same request can succeed later; the value explains it in docs/errors.md."""

    YES = "repeat it as it is, with the same key, after `retry_after_seconds` or with growing pauses"
    WAIT = "repeat it after `retry_after_seconds`"
    LATER = "it can succeed when the state has changed"
    NO = "the answer stays the same; change the request"


class DomainError(Exception):
    """A refusal. Its docstring says when it is answered, `advice` what a client does then (docs/errors.md).

    `details` is JSON, except that the messages in its list `fields` are Text. `retry_after_seconds` is how long the
    client should wait before a retry. `str()` returns the English message.
    """

    kind: ClassVar[Kind] = Kind.CONFLICT
    code: ClassVar[str] = "CONFLICT"
    repeat: ClassVar[Repeat] = Repeat.NO
    advice: ClassVar[str]
    message: ClassVar[Text] = Text(
        en="The request conflicts with the current state.", id="Permintaan ini tidak sesuai dengan keadaan saat ini."
    )

    def __init__(
        self,
        message: Text | None = None,
        *,
        details: dict[str, Any] | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        self.text = message or self.message
        super().__init__(self.text.en)
        self.details = details
        self.retry_after_seconds = retry_after_seconds

    def details_in(self, language: Language) -> dict[str, Any] | None:
        """Return `details` as JSON, with the messages of fields in `language`."""
        if self.details is None or "fields" not in self.details:
            return self.details
        fields = [{**field, "message": field["message"].said_in(language)} for field in self.details["fields"]]
        return {**self.details, "fields": fields}


class ValidationFailed(DomainError):
    """A field of the request is missing, unknown or not valid; `details.fields` names each one."""

    kind = Kind.INVALID
    code = "VALIDATION_ERROR"
    message = Text(en="Some fields are invalid.", id="Beberapa isian tidak sah.")
    advice = "Show each message at its field. An unknown field is a mistake in the client."

    @classmethod
    def of(cls, field: str, message: Text) -> "ValidationFailed":
        """Return a refusal about one field."""
        return cls(details={"fields": [{"field": field, "message": message}]})


class NotFound(DomainError):
    """The object does not exist, or it belongs to another user: the caller can't tell which."""

    kind = Kind.NOT_FOUND
    code = "NOT_FOUND"
    message = Text(en="Not found.", id="Tidak ditemukan.")
    advice = "Remove the object from the screen, or go back to the list."


class Forbidden(DomainError):
    """The caller is known but may not do this: the wrong kind of user, or an operator without the permission."""

    kind = Kind.FORBIDDEN
    code = "FORBIDDEN"
    message = Text(en="You don't have permission to do this.", id="Anda tidak memiliki izin untuk melakukan ini.")
    advice = "Don't offer this to the user."


class Unauthenticated(DomainError):
    """The access token is missing, wrong or expired, or its auth session has ended."""

    kind = Kind.UNAUTHENTICATED
    code = "UNAUTHENTICATED"
    message = Text(en="Sign in first.", id="Silakan masuk dahulu.")
    repeat = Repeat.LATER
    advice = "Refresh the tokens once and repeat the request. If the refresh fails, sign in again."


class OtpDeliveryFailed(DomainError):
    """The provider did not accept the code. The request does not count against the limits."""

    kind = Kind.OUTSIDE_FAILED
    code = "OTP_DELIVERY_FAILED"
    message = Text(en="The code could not be sent. Try again.", id="Kode tidak dapat dikirim. Silakan coba lagi.")
    repeat = Repeat.YES
    advice = "Let the user check the number and try again."


class GatewayUnavailable(DomainError):
    """The payment gateway did not make the invoice. The payment request is abandoned."""

    kind = Kind.OUTSIDE_FAILED
    code = "GATEWAY_UNAVAILABLE"
    message = Text(
        en="The payment could not be prepared. Try again.", id="Pembayaran tidak dapat disiapkan. Silakan coba lagi."
    )
    repeat = Repeat.YES
    advice = "Let the user try again: a new request is made."


class Unavailable(DomainError):
    """A dependency does not answer, or the process is overloaded. The same request may be sent again."""

    kind = Kind.UNAVAILABLE
    code = "UNAVAILABLE"
    message = Text(
        en="The service is temporarily unavailable. Try again.",
        id="Layanan sedang tidak tersedia. Silakan coba lagi.",
    )
    repeat = Repeat.YES
    advice = "Repeat the request after the wait; show that the service is busy after some tries."

    def __init__(self, message: Text | None = None, *, retry_after_seconds: int = 1) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)
