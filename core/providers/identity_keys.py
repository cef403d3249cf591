"""The published keys of an identity provider: a JWK set behind a URL, cached (docs/product.md#identity-providers)."""

import asyncio
import contextlib
import random
import re
from typing import Protocol

import aiohttp
import attrs
import jwt

from core.base.clock import monotonic, real_sleep
from core.base.errors import Unavailable
from core.providers.development_identity import AUDIENCE, DevelopmentIdentity
from core.providers.http_client import HttpClient, Operation, read_json
from core.settings.settings import Settings
from core.telemetry import logs

TIMEOUT_S = 5.0  # for each attempt
ATTEMPTS = 2
DEADLINE_S = 4.5  # for all attempts together, so that a sign-in is answered within 5 s
REFETCH_S = 60.0  # real; an unknown key id causes a read of the set at most this often
AFTER_FAILURE_S = 5.0
FRESH_S = (60.0, 3_600.0, 86_400.0)  # how long a set is cached: at least, without a Cache-Control header, at most

log = logs.get("identity")


class KeySource(Protocol):
    """Finds a provider's key by its id. Raises Unavailable if the provider does not answer."""

    async def get(self, key_id: str) -> jwt.PyJWK | None: ...


class IdentityKeys:
    """The cached keys of one provider."""

    def __init__(self, http: HttpClient, url: str) -> None:
        self._http = http
        self._url = url
        self._keys: dict[str, jwt.PyJWK] = {}
        self._until = float("-inf")
        self._asked_at = float("-inf")
        self._searched_at = float("-inf")
        self._failed = False
        self._lock = asyncio.Lock()

    async def get(self, key_id: str) -> jwt.PyJWK | None:
        """Return a key, None if the provider has no key with this id.

        Raises Unavailable if that is unknown, because the provider does not answer.
        """
        # If the key is cached, don't wait for a read in progress.
        if self._wants_reading(key_id) and not (key_id in self._keys and self._lock.locked()):
            async with self._lock:  # single-flight: concurrent sign-ins share one request
                if self._wants_reading(key_id):
                    await self._refresh()
        found = self._keys.get(key_id)
        if found is None and self._failed:
            raise Unavailable(retry_after_seconds=int(AFTER_FAILURE_S))
        return found

    def _wants_reading(self, key_id: str) -> bool:
        """Return whether to read the set.

        It is read if it has expired, or if it lacks the key and was not read for a missing key within REFETCH_S.
        """
        now = monotonic()
        if self._failed and now < self._asked_at + AFTER_FAILURE_S:
            return False
        return now >= self._until or (key_id not in self._keys and now >= self._searched_at + REFETCH_S)

    async def _refresh(self) -> None:
        searching = monotonic() < self._until
        found = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DEADLINE_S):
                for attempt in range(ATTEMPTS):
                    if attempt:
                        await real_sleep(0.1 + random.random() * 0.2)  # noqa: S311 - jitter
                    found = await self._fetch()
                    if found is not None:
                        break
        self._asked_at = monotonic()
        self._failed = found is None
        if found is None:
            log.warning("reading identity keys failed", url=self._url)
            return  # keep the old keys
        self._keys, fresh_s = found
        self._until = self._asked_at + fresh_s
        if searching:
            self._searched_at = self._asked_at

    async def _fetch(self) -> tuple[dict[str, jwt.PyJWK], float] | None:
        try:
            async with self._http.request(
                "GET", self._url, operation=Operation.READ_KEYS, timeout_s=TIMEOUT_S
            ) as answer:
                if answer.status != 200:
                    return None
                document = jwt.PyJWKSet.from_dict(await read_json(answer))
                age = re.search(r"max-age=(\d{1,9})", answer.headers.get("Cache-Control", ""), re.IGNORECASE)
        except (
            aiohttp.ClientError,
            TimeoutError,
            OSError,
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            jwt.PyJWTError,
        ):
            return None
        low, usual, high = FRESH_S
        signing = [key for key in document.keys if key.public_key_use in (None, "sig")]
        keys = {key.key_id: key for key in signing if isinstance(key.key_id, str)}
        return keys, min(high, max(low, float(age[1]) if age else usual))


@attrs.frozen(kw_only=True)
class IdentityProvider:
    """The audiences and issuers that a provider's tokens may have, and its keys."""

    audiences: tuple[str, ...]
    issuers: tuple[str, ...]
    keys: KeySource


def make_identity_providers(
    settings: Settings, http: HttpClient, *, development_secret: bytes | None = None
) -> dict[str, IdentityProvider]:
    """Return the configured identity providers by letter, `a` or `b`.

    With a `development_secret`, the development provider takes the place of one that is not configured.
    """
    found = {}
    for letter in ("a", "b"):
        audiences, issuers, url = (
            getattr(settings, f"identity_{letter}_{name}") for name in ("audiences", "issuers", "jwks_url")
        )
        if url:
            found[letter] = IdentityProvider(audiences=audiences, issuers=issuers, keys=IdentityKeys(http, url))
        elif development_secret is not None:
            own = DevelopmentIdentity(letter, secret=development_secret)
            found[letter] = IdentityProvider(audiences=(AUDIENCE,), issuers=(own.issuer,), keys=own)
    return found
