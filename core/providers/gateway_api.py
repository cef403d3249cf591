"""One call of the payment gateway's API (docs/protocol.md#payment-gateway)."""

import urllib.parse
from collections.abc import Mapping
from typing import Any

import aiohttp
import attrs
from yarl import URL

from core.providers.http_client import HttpClient, Operation, read_json

TIMEOUT_S = 5.0  # for each call


@attrs.frozen(kw_only=True)
class Answer:
    """A response with a status below 500, and its JSON."""

    status: int
    body: Any


def in_path(invoice_id: str) -> str:
    """Quote an invoice id for a path: ids also come from webhook calls and must not reach the gateway's other routes.

    A dot is quoted too, because "." and ".." are steps in a path.
    """
    return urllib.parse.quote(invoice_id, safe="").replace(".", "%2E")


class GatewayApi:
    """Makes calls with the account's secret key."""

    def __init__(self, http: HttpClient, *, base_url: str, secret_key: str) -> None:
        self._http = http
        self._base_url = base_url.rstrip("/")
        self._headers = {"Authorization": aiohttp.encode_basic_auth(secret_key, "")}

    async def call(
        self, operation: Operation, method: str, path: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> Answer | None:
        """Make one call. Return None if there was no response, a 5xx, a 429 or a body that can't be read."""
        sent = {**self._headers, **(headers or {})}
        try:
            url = URL(self._base_url + path, encoded=True)
            async with self._http.request(
                method, url, operation=operation, timeout_s=TIMEOUT_S, headers=sent, **more
            ) as answer:
                body = await read_json(answer)
                return None if answer.status >= 500 or answer.status == 429 else Answer(status=answer.status, body=body)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None
