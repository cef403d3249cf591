"""Deliver sign-in codes. OTP_SENDER chooses the adapter (docs/product.md#phone-codes).

There are two kinds of provider. A *sender* (`log`, `http`) delivers a code that the service makes and checks. A
*verifier* (`twilio_verify`) makes the code, sends it, and checks what the user types.
"""

import enum
import random
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import aiohttp
import attrs

from core.base.clock import real_sleep
from core.base.errors import OtpDeliveryFailed, Unavailable
from core.base.plain_json import plain_text, storable
from core.providers.http_client import HttpClient, Operation, read_json
from core.settings.settings import Settings
from core.telemetry import logs

TIMEOUT_S = 5.0  # for each attempt
ATTEMPTS = 2
log = logs.get("otp")


@attrs.frozen(kw_only=True)
class SignInCode:
    """A code to deliver. Without `code` the provider makes it."""

    phone: str
    code: str | None = attrs.field(repr=False)
    channel: str
    otp_request_id: str
    ttl_seconds: int


class CodeVerdict(enum.Enum):
    """The provider's answer about a typed code."""

    RIGHT = "right"
    WRONG = "wrong"
    EXPIRED = "expired"  # expired, used, or unknown to the provider
    EXCEEDED = "exceeded"  # the provider accepts no more attempts


class NumberRefused(Exception):
    """The provider will not send codes to this number; a retry would not help."""


@runtime_checkable
class OtpSender(Protocol):
    """Delivers a code and returns the provider's reference. Raises OtpDeliveryFailed, NumberRefused."""

    async def send(self, code: SignInCode) -> str: ...


@runtime_checkable
class OtpVerifier(OtpSender, Protocol):
    """Also makes the code and checks it. Raises Unavailable if the provider does not answer.

    `reference` names one code; without it the pending code of `phone` is checked. If both are None, no code was sent.
    The provider is asked anyway, so that the response takes as long as any other.
    """

    async def check(self, *, reference: str | None, phone: str | None, code: str) -> CodeVerdict: ...


class LogOtpSender:
    """Write the code to the log, for development. In production the code is left out."""

    def __init__(self, *, production: bool) -> None:
        self._production = production

    async def send(self, code: SignInCode) -> str:
        """Log one line."""
        shown = "(hidden in production: set OTP_SENDER)" if self._production else code.code
        log.info("otp code", otp_request_id=code.otp_request_id, code=shown)
        return "log"


@attrs.frozen(kw_only=True)
class _Answer:
    status: int
    body: Mapping[str, Any]


async def _post(http: HttpClient, operation: Operation, url: str, **more: Any) -> _Answer | None:
    """Post once, within TIMEOUT_S. Return None if there was no response."""
    status: int | None = None
    body: Any = None
    try:
        async with http.request("POST", url, operation=operation, timeout_s=TIMEOUT_S, **more) as answer:
            status = answer.status
            body = await read_json(answer)
    except (aiohttp.ClientError, TimeoutError, OSError):
        return None
    except ValueError:
        if status is None:  # the URL is invalid
            return None
    return _Answer(status=status, body=body if isinstance(body, dict) else {})


async def _persistently(http: HttpClient, url: str, **more: Any) -> _Answer | None:
    """Send a code: post, and retry once after no response or a 5xx, with jitter before the retry."""
    answer = None
    for attempt in range(ATTEMPTS):
        if attempt:
            await real_sleep(0.1 + random.random() * 0.2)  # noqa: S311 - jitter
        answer = await _post(http, Operation.SEND_CODE, url, **more)
        if answer is not None and answer.status < 500:
            return answer
    return answer


class HttpOtpSender:
    """Post the code to an HTTP service with a simple interface of our own (docs/protocol.md#providers)."""

    NUMBER_REFUSED = 422

    def __init__(self, http: HttpClient, *, url: str, token: str) -> None:
        self._http = http
        self._url = url
        self._token = token

    async def send(self, code: SignInCode) -> str:
        """Post the code. A retry carries the same otp_request_id, so that the service can recognise it."""
        headers = {"Authorization": f"Bearer {self._token}"}
        answer = await _persistently(self._http, self._url, json=attrs.asdict(code), headers=headers)
        if answer is not None and answer.status == self.NUMBER_REFUSED:
            raise NumberRefused
        reference = plain_text(answer.body.get("reference")) if answer is not None and answer.status < 300 else None
        if not reference:  # some services report a failure with status 200
            log.warning("otp delivery failed", otp_request_id=code.otp_request_id)
            raise OtpDeliveryFailed
        return reference


class TwilioVerify:
    """Twilio Verify v2: makes, sends and checks the code.

    https://www.twilio.com/docs/verify/api: Verifications, VerificationCheck.
    """

    GONE = 404  # error 20404: expired, already approved, or out of attempts; Twilio has deleted the verification
    TOO_MANY_CHECKS = 60202
    # Invalid number, landline, blocked as fraud, or a country that the account does not send to.
    NUMBER_REFUSED = (60200, 60205, 60410, 60605)  # no set: what is looked up may be a list
    NO_VERIFICATION = "VE" + "0" * 32

    def __init__(self, http: HttpClient, *, base_url: str, service: str, key: str, secret: str) -> None:
        self._http = http
        self._url = f"{base_url.rstrip('/')}/v2/Services/{service}"
        self._auth = aiohttp.BasicAuth(key, secret)

    async def send(self, code: SignInCode) -> str:
        """Start a verification. A second call for the same phone sends the same code, so a retry is harmless."""
        form = {"To": code.phone, "Channel": code.channel}
        answer = await _persistently(self._http, f"{self._url}/Verifications", data=form, auth=self._auth)
        reference = storable(answer.body.get("sid")) if answer is not None and answer.status < 300 else None
        if answer is not None and answer.status >= 400 and answer.body.get("code") in self.NUMBER_REFUSED:
            raise NumberRefused
        if reference is None:
            self._note("otp delivery failed", answer, otp_request_id=code.otp_request_id)
            raise OtpDeliveryFailed
        return reference

    async def check(self, *, reference: str | None, phone: str | None, code: str) -> CodeVerdict:
        """Ask whether the code is correct. There is no retry, because it could count as another attempt.

        A code with other characters than digits is wrong without asking, because Twilio would reject the request.
        """
        if not (code.isascii() and code.isdigit()):
            return CodeVerdict.WRONG
        whose = {"To": phone} if reference is None and phone else {"VerificationSid": reference or self.NO_VERIFICATION}
        answer = await _post(
            self._http,
            Operation.CHECK_CODE,
            f"{self._url}/VerificationCheck",
            data={**whose, "Code": code},
            auth=self._auth,
        )
        if answer is not None and answer.status == self.GONE:
            return CodeVerdict.EXPIRED
        if answer is not None and answer.body.get("code") == self.TOO_MANY_CHECKS:
            return CodeVerdict.EXCEEDED
        status = answer.body.get("status") if answer is not None else None
        if answer is None or answer.status >= 300 or not isinstance(status, str):
            self._note("otp check failed", answer)
            raise Unavailable
        if status == "approved":
            return CodeVerdict.RIGHT
        if status == "max_attempts_reached":
            return CodeVerdict.EXCEEDED
        return CodeVerdict.WRONG if status == "pending" else CodeVerdict.EXPIRED

    def _note(self, what: str, answer: _Answer | None, **more: Any) -> None:
        log.warning(
            what,
            **more,
            status=answer.status if answer else None,
            provider_code=answer.body.get("code") if answer else None,
        )


def make_otp_sender(settings: Settings, http: HttpClient) -> OtpSender:
    """Return the adapter that OTP_SENDER names."""
    if settings.otp_sender == "http":
        return HttpOtpSender(http, url=settings.otp_http_url, token=settings.otp_http_token)
    if settings.otp_sender == "twilio_verify":
        return TwilioVerify(
            http,
            base_url=settings.twilio_verify_base_url,
            service=settings.twilio_verify_service,
            key=settings.twilio_api_key,
            secret=settings.twilio_api_secret,
        )
    return LogOtpSender(production=settings.production)
