"""What calls of the client raise."""

import re
from typing import Any

# Codes with which the same request can succeed later. `error` frames have codes only.
_REPEATED = re.compile(r"(RATE_LIMITED|TOO_FAST|IN_FLIGHT|NOT_READY|UNAVAILABLE|INTERNAL_ERROR|TIMEOUT)$")


class SesiError(Exception):
    """Something that the service, or its network, did not let the client do. `code` is one of the service's codes."""

    code: str | None = None
    retry_after_s: float | None = None

    @property
    def is_temporary(self) -> bool:
        """Return whether the same call can succeed later."""
        return False


class Refused(SesiError):
    """The service refused a request. `status` is the HTTP status, 0 for an `error` frame; `body` is the whole body."""

    def __init__(self, status: int, body: Any) -> None:
        error = body.get("error") if isinstance(body, dict) else None
        error = error if isinstance(error, dict) else {}
        super().__init__(f"{status} {error.get('code')}: {error.get('message')}")
        self.status = status
        self.code = error.get("code")
        self.details: dict[str, Any] = error.get("details") or {}
        self.retry_after_s = error.get("retry_after_seconds")
        self.body = body

    @property
    def is_temporary(self) -> bool:
        """Return whether the same request can succeed later."""
        code = self.code or ""
        return not code.startswith("OTP_") and (self.status >= 500 or _REPEATED.search(code) is not None)


class Unreached(SesiError, ConnectionError):
    """There was no answer, or another program's."""

    code = "NETWORK"

    @property
    def is_temporary(self) -> bool:
        """Return True: nothing is known about the request."""
        return True


class Closed(Unreached):
    """The service has closed the socket. `close_code` is None if the connection was lost."""

    def __init__(self, close_code: int | None, message: str) -> None:
        super().__init__(message)
        self.close_code = close_code


class SignedOut(SesiError):
    """The sign-in has ended on this device, or newer sockets took the place of this one's (`replaced`)."""

    code = "UNAUTHENTICATED"

    def __init__(self, reason: str) -> None:
        """`reason`: `self`, `revoked`, `expired` or `replaced`."""
        super().__init__(f"signed out: {reason}")
        self.reason = reason
