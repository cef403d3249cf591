"""Read a list of the payment gateway page by page (docs/protocol.md#payment-gateway)."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

from core.base.clock import real_sleep
from core.base.errors import GatewayUnavailable
from core.telemetry import logs

PAUSES_S = (0.0, 0.5, 2.0)  # before each attempt to read a page; the gateway may limit the rate of calls
T = TypeVar("T")
ReadPage = Callable[[Mapping[str, str]], Awaitable[list[Any] | None]]
log = logs.get("gateway")


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

    `parse` returns None for what is left out. `after` is the parameter with the last id of the page before. `repeated` is
    logged if a page has nothing new: such a list may have no end.
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
