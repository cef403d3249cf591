"""Deliver pushes. PUSH_SENDER chooses the adapter (docs/protocol.md#pushes)."""

import datetime as dt
import email.utils
import random
from collections.abc import Mapping
from typing import Any, Protocol

import aiohttp
import attrs

from core.base.clock import Clock
from core.providers.http_client import HttpClient, Operation, read_json
from core.providers.service_account import ServiceAccount, read_credentials
from core.settings.settings import Settings
from core.telemetry import logs

TIMEOUT_S = 5.0  # for each call
QUOTA_S = 60.0  # the pause after a 429 without Retry-After
CONFIGURATION_S = 30.0
LONGEST_PAUSE_S = 3600.0  # by then every push has expired
log = logs.get("push")


@attrs.frozen(kw_only=True)
class Notification:
    """One push for one device. All values of `data` are text. `expires_at` is real time.

    `data` includes title and body, except in a silent push, which wakes the app and shows nothing.
    """

    token: str = attrs.field(repr=False)
    data: Mapping[str, str]
    urgent: bool
    is_silent: bool
    expires_at: dt.datetime


@attrs.frozen(kw_only=True)
class Sent:
    """The push is done: the provider has accepted it, or there is none (`by_provider` is False).

    A phone may still not show an accepted push.
    """

    by_provider: bool = True


@attrs.frozen(kw_only=True)
class DeadToken:
    """The provider does not know this device, or no longer: the caller should delete the token."""


@attrs.frozen(kw_only=True)
class PushRefused:
    """The provider will never accept this push. The token may still be valid."""


@attrs.frozen(kw_only=True)
class Later:
    """Retry after this many real seconds."""

    after_s: float


Outcome = Sent | DeadToken | PushRefused | Later
LABELS: dict[type[Outcome], str] = {Sent: "Sent", DeadToken: "DeadToken", PushRefused: "Refused", Later: "Later"}
"""The outcomes as figures and the development inbox name them."""


class PushSender(Protocol):
    """Make one attempt to deliver a push and return the outcome. Provider errors are never raised."""

    async def send(self, push: Notification, *, attempt: int) -> Outcome: ...


class LogPushSender:
    """Write each push to the log, for development."""

    async def send(self, push: Notification, *, attempt: int) -> Outcome:
        """Log one line, without the token."""
        data = push.data
        log.info("push", action=data["action"], pushed_event=data["event"], event_id=data["event_id"])
        return Sent(by_provider=False)


class Fcm:
    """Firebase Cloud Messaging, HTTP v1.

    https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages
    """

    def __init__(
        self, http: HttpClient, *, base_url: str, project_id: str, account: ServiceAccount, clock: Clock
    ) -> None:
        self._http = http
        self._url = f"{base_url.rstrip('/')}/v1/projects/{project_id}/messages:send"
        self._account = account
        self._clock = clock

    async def send(self, push: Notification, *, attempt: int) -> Outcome:
        """Send to one device. `attempt` is the number of the attempt; it sets the backoff."""
        token = await self._account.access_token()
        if token is None:
            return self._later(attempt)
        body: Any = None
        answer: aiohttp.ClientResponse | None = None
        try:
            async with self._http.request(
                "POST",
                self._url,
                operation=Operation.SEND_PUSH,
                timeout_s=TIMEOUT_S,
                json={"message": self._message(push)},
                headers={"Authorization": f"Bearer {token}"},
            ) as answer:
                if answer.status < 300:
                    return Sent()
                body = await read_json(answer)
        except (aiohttp.ClientError, TimeoutError, OSError):
            return self._later(attempt)
        except ValueError:
            if answer is None:  # the request could not be made
                raise
        return self._judge(answer.status, body, answer.headers.get("Retry-After"), attempt)

    def _message(self, push: Notification) -> dict[str, Any]:
        ttl_s = max(0, int(push.expires_at.timestamp() - self._real_now()))
        message: dict[str, Any] = {
            "token": push.token,
            "data": dict(push.data),
            "android": {
                # A push of normal priority does not wake a sleeping phone.
                "priority": "HIGH" if push.urgent or push.is_silent else "NORMAL",
                "ttl": f"{ttl_s}s",
                "collapse_key": push.data["event_id"],
            },
            "apns": {
                "headers": {
                    "apns-priority": "10" if push.urgent else "5",
                    "apns-push-type": "background" if push.is_silent else "alert",
                    "apns-expiration": str(int(push.expires_at.timestamp())),
                    "apns-collapse-id": push.data["event_id"],
                },
                "payload": {"aps": {"content-available": 1}},
            },
        }
        if not push.is_silent:
            words = {"title": push.data["title"], "body": push.data["body"]}
            message["notification"] = words
            message["apns"]["payload"] = {"aps": {"alert": words, "sound": "default"}}
        return message

    def _judge(self, status: int, body: Any, retry_after: str | None, attempt: int) -> Outcome:
        code = _error_code(body)
        if code == "UNREGISTERED":
            return DeadToken()
        if code == "SENDER_ID_MISMATCH":
            log.error("a push token belongs to another project")
            return DeadToken()
        if status == 401 or code in ("THIRD_PARTY_AUTH_ERROR", "APNS_AUTH_ERROR"):
            log.error("the push provider rejects our credentials", status=status, code=code)
            # FCM's credentials at Apple, not our access token
            if code in ("THIRD_PARTY_AUTH_ERROR", "APNS_AUTH_ERROR"):
                return Later(after_s=CONFIGURATION_S)
            self._account.discard()
            # The access token may just have been revoked, so the first failure is retried with a new one after a
            # second.
            return Later(after_s=1.0 if attempt <= 1 and code == "UNAUTHENTICATED" else CONFIGURATION_S)
        pause = self._seconds(retry_after)
        if status == 429:
            return Later(after_s=pause or QUOTA_S)
        if status >= 500:
            return Later(after_s=pause) if pause else self._later(attempt)
        if _is_about_token(body):
            return DeadToken()
        log.error("the push provider refused a push", status=status, code=code)
        return PushRefused()

    def _later(self, attempt: int) -> Later:
        return Later(after_s=min(60.0, 2.0 ** min(attempt, 6)) * (0.5 + random.random()))  # noqa: S311 - jitter

    def _real_now(self) -> float:
        return self._clock.real_now().timestamp()

    def _seconds(self, retry_after: str | None) -> float:
        """Return the seconds of a Retry-After header, given as a number or a date; 0 if it is missing or invalid."""
        text = (retry_after or "").strip()
        if text.isascii() and text.isdigit():
            return float(min(LONGEST_PAUSE_S, int(text[:9])))
        try:
            until = email.utils.parsedate_to_datetime(text).timestamp()
        except (ValueError, OverflowError):
            return 0.0
        return min(LONGEST_PAUSE_S, max(0.0, until - self._real_now()))


def _error_code(body: Any) -> str | None:
    """Return FCM's own error code if there is one, else the general status."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return None
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and str(detail.get("@type", "")).endswith("FcmError"):
            return str(detail.get("errorCode"))
    return str(error["status"]) if "status" in error else None


def _is_about_token(body: Any) -> bool:
    """Return whether FCM says that the token is malformed: INVALID_ARGUMENT with a violation of the token's field."""
    error = body.get("error") if isinstance(body, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else ():
        violations = detail.get("fieldViolations") if isinstance(detail, dict) else None
        for violation in violations if isinstance(violations, list) else ():
            if isinstance(violation, dict) and violation.get("field") == "message.token":
                return True
    return False


def make_push_sender(settings: Settings, clock: Clock, http: HttpClient) -> PushSender:
    """Return the adapter that PUSH_SENDER names. Raises SettingsError if the credentials can't be read."""
    if settings.push_sender != "fcm":
        return LogPushSender()
    account = ServiceAccount(http, credentials=read_credentials(settings), clock=clock)
    return Fcm(http, base_url=settings.fcm_base_url, project_id=settings.fcm_project_id, account=account, clock=clock)
