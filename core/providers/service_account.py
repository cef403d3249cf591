"""The access tokens of a Google service account, by RFC 7523 (docs/protocol.md#fcm)."""

import asyncio
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import aiohttp
import jwt

from core.base.clock import Clock, monotonic
from core.providers.http_client import HttpClient, Operation, read_json
from core.settings.plaintext import http_in_plaintext
from core.settings.settings import Settings, SettingsError
from core.telemetry import logs

TIMEOUT_S = 5.0  # for each call
SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
RENEW_AT = 0.8  # part of an access token's lifetime after which it is renewed
RENEW_AGAIN_S = 1.0  # after a failed renewal, so that pushes that waited for it don't each retry at once
log = logs.get("push")


class ServiceAccount:
    """Gets an access token and keeps it until it is due for renewal."""

    def __init__(self, http: HttpClient, *, credentials: Mapping[str, Any], clock: Clock) -> None:
        self._http = http
        self._credentials = credentials
        self._clock = clock
        self._token = ""
        self._ends_at = float("-inf")
        self._renew_at = float("-inf")
        self._lock = asyncio.Lock()

    async def access_token(self) -> str | None:
        """Return a valid access token, None if none can be had now."""
        # If the token is still valid, don't wait for a renewal in progress.
        if monotonic() >= self._renew_at and not (monotonic() < self._ends_at and self._lock.locked()):
            async with self._lock:  # single-flight: concurrent pushes share one request
                if monotonic() >= self._renew_at:
                    await self._renew()
        return self._token if monotonic() < self._ends_at else None

    def discard(self) -> None:
        """Forget the access token, because the provider rejects it."""
        self._ends_at = self._renew_at = float("-inf")

    def _assertion(self) -> str:
        now = int(self._clock.real_now().timestamp())
        claims = {
            "iss": self._credentials["client_email"],
            "scope": SCOPE,
            "aud": self._credentials["token_uri"],
            "iat": now,
            "exp": now + 3600,
        }
        headers = {"kid": self._credentials["private_key_id"]} if self._credentials.get("private_key_id") else None
        return jwt.encode(claims, self._credentials["private_key"], algorithm="RS256", headers=headers)

    async def _renew(self) -> None:
        form = {"grant_type": GRANT, "assertion": self._assertion()}
        try:
            async with self._http.request(
                "POST",
                self._credentials["token_uri"],
                operation=Operation.GET_TOKEN,
                timeout_s=TIMEOUT_S,
                data=form,
            ) as answer:
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


def read_credentials(settings: Settings) -> Mapping[str, Any]:
    """Return the content of FCM_CREDENTIALS_FILE, with the private key as an object: reading it takes 40 ms.

    Raises SettingsError if it is not a service account's.
    """
    try:
        credentials = json.loads(pathlib.Path(settings.fcm_credentials_file).read_text())
        if not all(isinstance(credentials[name], str) for name in ("client_email", "private_key", "token_uri")):
            raise ValueError("incomplete")
        credentials["private_key"] = jwt.get_algorithm_by_name("RS256").prepare_key(credentials["private_key"])
        jwt.encode({}, credentials["private_key"], algorithm="RS256")
    except (OSError, ValueError, KeyError, TypeError, jwt.PyJWTError) as error:
        raise SettingsError(
            "FCM_CREDENTIALS_FILE: expected a service account's JSON with client_email, private_key and token_uri"
        ) from error
    if settings.production and not settings.allow_plaintext_backends and http_in_plaintext(credentials["token_uri"]):
        raise SettingsError("FCM_CREDENTIALS_FILE: expected a token_uri with https:// in production")
    return credentials
