"""The payment gateway's API: one call, and lists page by page (docs/protocol.md#payment-gateway)."""

import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

import aiohttp
import attrs
from yarl import URL

from core.base.clock import real_sleep
from core.base.errors import GatewayUnavailable
from core.providers.http_client import HttpClient, Operation, read_json
from core.telemetry import logs

TIMEOUT_S = 5.0  # for each call
CURRENCY = "IDR"
PAUSES_S = (0.0, 0.5, 2.0)  # before each attempt to read a page; the gateway may limit the rate of calls
T = TypeVar("T")
ReadPage = Callable[[Mapping[str, str]], Awaitable[list[Any] | None]]
log = logs.get("gateway")


@attrs.frozen(kw_only=True)
class GatewayAnswer:
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
    ) -> GatewayAnswer | None:
        """Make one call. Return None if there was no response, a 5xx, a 429 or a body that can't be read."""
        sent = {**self._headers, **(headers or {})}
        try:
            url = URL(self._base_url + path, encoded=True)
            async with self._http.request(
                method, url, operation=operation, timeout_s=TIMEOUT_S, headers=sent, **more
            ) as answer:
                body = await read_json(answer)
                return (
                    None
                    if answer.status >= 500 or answer.status == 429
                    else GatewayAnswer(status=answer.status, body=body)
                )
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None


async def pages(
    read_page: ReadPage,
    query: Mapping[str, str],
    *,
    parse: Callable[[Any], T | None],
    id_of: Callable[[T], str],
    after: str,
    repeated: str,
) -> AsyncIterator[list[T]]:
    """Yield pages until one is empty: the gateway may send short ones before the last page. Raises GatewayUnavailable.

    `parse` returns None for what is left out. `after` is the parameter with the last id of the page before. `repeated`
    is logged if a page has nothing new: such a list may have no end.
    """
    seen: set[str] = set()
    while page := await _page(read_page, query):
        found = [one for one in map(parse, page) if one is not None]
        if all(id_of(one) in seen for one in found):
            log.error(repeated, **{after: query.get(after)})
            raise GatewayUnavailable
        seen |= {id_of(one) for one in found}
        yield found
        query = {**query, after: id_of(found[-1])}


async def _page(read_page: ReadPage, query: Mapping[str, str]) -> list[Any]:
    for pause in PAUSES_S:
        await real_sleep(pause)
        page = await read_page(query)
        if page is not None:
            return page
    raise GatewayUnavailable
