"""List the refunds of the payment gateway, page by page (docs/protocol.md#refunds)."""

from collections.abc import AsyncIterator
from typing import Any

from core.base import logs
from core.base.clock import real_sleep
from core.base.errors import GatewayUnavailable
from core.base.plain_json import storable
from core.providers.refunds import MOST_LISTED, Refunds

PAUSES_S = (0.0, 0.5, 2.0)  # before each attempt to read a page; the gateway may limit the rate of calls
log = logs.get("gateway")


async def pages(gateway: Refunds) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield pages until one is empty; each refund has an id. Raises GatewayUnavailable."""
    query, seen = {"limit": MOST_LISTED}, set[str]()
    while page := await _page(gateway, query):
        found = [one for one in page if isinstance(one, dict) and storable(one.get("id")) is not None]
        if all(one["id"] in seen for one in found):
            log.error("the gateway lists the same refunds again", after_id=query.get("after_id"))
            raise GatewayUnavailable
        seen |= {one["id"] for one in found}
        yield found
        query = {**query, "after_id": found[-1]["id"]}


async def _page(gateway: Refunds, query: dict[str, str]) -> list[Any]:
    for pause in PAUSES_S:
        await real_sleep(pause)
        page = await gateway.page(query)
        if page is not None:
            return page
    raise GatewayUnavailable
