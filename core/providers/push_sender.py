"""Deliver pushes. PUSH_SENDER chooses the adapter (docs/protocol.md#pushes)."""

import asyncio
import datetime as dt
import email.utils
import json
import pathlib
import random
from collections.abc import Mapping
from typing import Any, Protocol

import aiohttp
import attrs
import jwt

from core.base import logs
from core.base.clock import Clock, monotonic
from core.base.plaintext import http_in_plaintext
from core.base.settings import Settings, SettingsError
from core.providers.answers import read_json

TIMEOUT_S = 5.0  # for each call
SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"  # RFC 7523
RENEW_AT = 0.8  # part of an access token's lifetime after which it is renewed
RENEW_AGAIN_S = 1.0  # after a failed renewal, so that pushes that waited for it don't each retry at once
QUOTA_S = 60.0  # the pause after a 429 without Retry-After
CONFIGURATION_S = 30.0
LONGEST_PAUSE_S = 3600.0  # by then every push has expired
log = logs.get("push")


@attrs.frozen(kw_only=True)
class Notification:
    """One push for one device. `data` includes title and body; all values are text. `expires_at` is real time."""

    token: str = attrs.field(repr=False)
    data: Mapping[str, str]
    urgent: bool
    expires_at: dt.datetime


@attrs.frozen(kw_only=True)
class Sent:
    """The provider has accepted the push. The phone may still not show it."""


@attrs.frozen(kw_only=True)
class DeadToken:
    """The provider does not know this device, or no longer: the caller should delete the token."""


@attrs.frozen(kw_only=True)
class Refused:
    """The provider will never accept this push. The token may still be valid."""


@attrs.frozen(kw_only=True)
class Later:
    """Retry after this many real seconds."""

    after_s: float


Outcome = Sent | DeadToken | Refused | Later


class PushSender(Protocol):
    """Make one attempt to deliver a push and return the outcome. Provider errors are never raised."""

    async def send(self, push: Notification, *, attempt: int) -> Outcome: ...


class LogPushSender:
    """Write each push to the log, for development."""

    async def send(self, push: Notification, *, attempt: int) -> Outcome:
        """Log one line, without the token."""
        data = push.data
        log.info("push", action=data["action"], pushed_event=data["event"], event_id=data["event_id"])
        return Sent()


class Fcm:
    """Firebase Cloud Messaging, HTTP v1.

    https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages
    """

    def __init__(self, *, base_url: str, project_id: str, credentials: Mapping[str, Any], clock: Clock) -> None:
        self._url = f"{base_url.rstrip('/')}/v1/projects/{project_id}/messages:send"
        self._credentials = credentials
        self._clock = clock
        self._token = ""
        self._ends_at = float("-inf")
        self._renew_at = float("-inf")
        self._lock = asyncio.Lock()

    async def send(self, push: Notification, *, attempt: int) -> Outcome:
        """Send to one device. `attempt` is the number of the attempt; it sets the backoff."""
        token = await self._access_token()
        if token is None:
            return self._later(attempt)
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as session,
                session.post(
                    self._url,
                    json={"message": self._message(push)},
                    headers={"Authorization": f"Bearer {token}"},
                    allow_redirects=False,
                ) as answer,
            ):
                if answer.status < 300:
                    return Sent()
                try:
                    body = await read_json(answer)
                except ValueError:
                    body = None
                return self._judge(answer.status, body, answer.headers.get("Retry-After"), attempt)
        except (aiohttp.ClientError, TimeoutError, OSError):
            return self._later(attempt)

    def _message(self, push: Notification) -> dict[str, Any]:
        words = {"title": push.data["title"], "body": push.data["body"]}
        ttl_s = max(0, int(push.expires_at.timestamp() - self._real_now()))
        return {
            "token": push.token,
            "data": dict(push.data),
            "notification": words,
            "android": {
                "priority": "HIGH" if push.urgent else "NORMAL",
                "ttl": f"{ttl_s}s",
                "collapse_key": push.data["event_id"],
            },
            "apns": {
                "headers": {
                    "apns-priority": "10" if push.urgent else "5",
                    "apns-push-type": "alert",
                    "apns-expiration": str(int(push.expires_at.timestamp())),
                    "apns-collapse-id": push.data["event_id"],
                },
                "payload": {"aps": {"alert": words, "sound": "default"}},
            },
        }

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
            self._ends_at = self._renew_at = float("-inf")
            # The access token may just have been revoked, so the first failure is retried with a new one after a
            # second.
            return Later(after_s=1.0 if attempt <= 1 and code == "UNAUTHENTICATED" else CONFIGURATION_S)
        pause = self._seconds(retry_after)
        if status == 429:
            return Later(after_s=pause or QUOTA_S)
        if status >= 500:
            return Later(after_s=pause) if pause else self._later(attempt)
        log.error("the push provider refused a push", status=status, code=code)
        return Refused()

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

    async def _access_token(self) -> str | None:
        # If the token is still valid, don't wait for a renewal in progress.
        if monotonic() >= self._renew_at and not (monotonic() < self._ends_at and self._lock.locked()):
            async with self._lock:  # single-flight: concurrent pushes share one request
                if monotonic() >= self._renew_at:
                    await self._renew()
        return self._token if monotonic() < self._ends_at else None

    async def _renew(self) -> None:
        now = int(self._real_now())
        claims = {
            "iss": self._credentials["client_email"],
            "scope": SCOPE,
            "aud": self._credentials["token_uri"],
            "iat": now,
            "exp": now + 3600,
        }
        headers = {"kid": self._credentials["private_key_id"]} if self._credentials.get("private_key_id") else None
        assertion = jwt.encode(claims, self._credentials["private_key"], algorithm="RS256", headers=headers)
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as session,
                session.post(
                    self._credentials["token_uri"],
                    data={"grant_type": GRANT, "assertion": assertion},
                    allow_redirects=False,
                ) as answer,
            ):
                body = await read_json(answer)
                if answer.status == 200 and isinstance(body.get("access_token"), str):
                    life_s = float(body.get("expires_in", 3600))
                    self._renew_at, self._ends_at = monotonic() + RENEW_AT * life_s, monotonic() + life_s
                    self._token = body["access_token"]
                    return
                log.error("getting an access token for pushes failed", status=answer.status)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, TypeError, AttributeError) as error:
            log.warning("getting an access token for pushes failed", error=type(error).__name__)
        self._renew_at = monotonic() + RENEW_AGAIN_S


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


def make_push_sender(settings: Settings, clock: Clock) -> PushSender:
    """Return the adapter that PUSH_SENDER names. Raises SettingsError if the credentials can't be read."""
    if settings.push_sender != "fcm":
        return LogPushSender()
    try:
        credentials = json.loads(pathlib.Path(settings.fcm_credentials_file).read_text())
        if not all(isinstance(credentials[name], str) for name in ("client_email", "private_key", "token_uri")):
            raise ValueError("incomplete")
        jwt.encode({}, credentials["private_key"], algorithm="RS256")
    except (OSError, ValueError, KeyError, TypeError, jwt.PyJWTError) as error:
        raise SettingsError(
            "FCM_CREDENTIALS_FILE: expected a service account's JSON with client_email, private_key and token_uri"
        ) from error
    if settings.production and not settings.allow_plaintext_backends and http_in_plaintext(credentials["token_uri"]):
        raise SettingsError("FCM_CREDENTIALS_FILE: expected a token_uri with https:// in production")
    return Fcm(base_url=settings.fcm_base_url, project_id=settings.fcm_project_id, credentials=credentials, clock=clock)
