"""The HTTP client that all providers of a process share (docs/protocol.md#providers)."""

import contextlib
import json
from typing import Any

import aiohttp
from yarl import URL

CONNECTIONS_PER_HOST = 100  # for each provider; there is no common limit, so that a slow provider delays no other
# Seconds. Common servers close a connection that is idle for 5 s. A POST that is sent at that moment fails, and can't be
# repeated: the provider may have received it.
IDLE_S = 4.0
MOST = 1 << 20  # bytes of a response body
PART = 1 << 16


class HttpClient:
    """Keeps connections to providers open between calls, for `idle_s` seconds. It follows no redirects and keeps no
    cookies."""

    def __init__(self, *, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    def request(
        self, method: str, url: str | URL, *, timeout_s: float, **more: Any
    ) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Make one request. `timeout_s` includes the wait for a connection and the reading of the body.

        `more` are aiohttp's arguments, such as `json`, `data`, `params` and `headers`. Raises aiohttp.ClientError, also
        after `close`, TimeoutError and OSError.
        """
        if self._closed:  # work that outlives the shutdown handles it like a lost connection
            raise aiohttp.ClientConnectionError("the client is closed")
        if self._session is None:  # aiohttp needs a running event loop for it
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, limit_per_host=CONNECTIONS_PER_HOST, keepalive_timeout=self._idle_s
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        return self._session.request(method, url, timeout=timeout, allow_redirects=False, **more)

    async def close(self) -> None:
        """Close all connections, and refuse new requests."""
        self._closed = True
        if self._session is not None:
            await self._session.close()


async def read_json(response: aiohttp.ClientResponse) -> Any:
    """Return the JSON of a response, None if the body is empty.

    Raises ValueError if it is not JSON, is nested too deeply or is longer than MOST bytes, and whatever aiohttp raises.
    """
    body = bytearray()
    async for part in response.content.iter_chunked(PART):
        body += part
        if len(body) > MOST:
            raise ValueError("too long")
    try:
        return json.loads(body) if body.strip() else None
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
