"""Delivers sign-in codes. One interface, an adapter each; chosen by OTP_SENDER (contract 7, the world outside)."""

import random
from typing import Protocol

import aiohttp
import attrs

from core.base import logs
from core.base.clock import real_sleep
from core.base.errors import DomainError, Kind
from core.base.settings import Settings

TIMEOUT_S = 5.0
ATTEMPTS = 2
log = logs.get("otp")


class OtpDeliveryFailed(DomainError):
    """The provider did not take the code; the request does not count against the limits."""

    kind = Kind.OUTSIDE_FAILED
    code = "OTP_DELIVERY_FAILED"
    message = "The code could not be sent. Try again."


@attrs.frozen(kw_only=True)
class Code:
    """A code to deliver."""

    phone: str
    code: str
    channel: str
    otp_request_id: str
    ttl_seconds: int


class OtpSender(Protocol):
    """Delivers a code; returns the provider's reference. Raises OtpDeliveryFailed."""

    async def send(self, code: Code) -> str: ...


class LogOtpSender:
    """Writes the code to the log, for development. In production the code itself is left out."""

    def __init__(self, *, production: bool) -> None:
        self._production = production

    async def send(self, code: Code) -> str:
        """Write one line."""
        shown = "(hidden in production: set OTP_SENDER)" if self._production else code.code
        log.info("otp code", otp_request_id=code.otp_request_id, code=shown)
        return "log"


class HttpOtpSender:
    """Posts the code to a provider's gateway."""

    def __init__(self, *, url: str, token: str) -> None:
        self._url = url
        self._token = token

    async def send(self, code: Code) -> str:
        """Post, twice at most; a second try carries the same otp_request_id, so the provider can tell."""
        for attempt in range(ATTEMPTS):
            if attempt:
                await real_sleep(0.1 + random.random() * 0.2)  # noqa: S311 - jitter
            try:
                async with (
                    aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as session,
                    session.post(
                        self._url,
                        json=attrs.asdict(code),
                        headers={"Authorization": f"Bearer {self._token}"},
                        allow_redirects=False,
                    ) as answer,
                ):
                    if answer.status >= 500:
                        continue
                    if answer.status >= 300:
                        break
                    body = await answer.json(content_type=None)
                    reference = body.get("reference") if isinstance(body, dict) else None
                    return str(reference or "")[:255]
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
                continue
        log.warning("otp delivery failed", otp_request_id=code.otp_request_id)
        raise OtpDeliveryFailed


def make_otp_sender(settings: Settings) -> OtpSender:
    """Return the sender that the settings ask for."""
    if settings.otp_sender == "http":
        return HttpOtpSender(url=settings.otp_http_url, token=settings.otp_http_token)
    return LogOtpSender(production=settings.production)
