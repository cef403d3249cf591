"""List the invoices of the payment gateway since a time, page by page (docs/protocol.md#payment-gateway)."""

import datetime as dt
from collections.abc import AsyncIterator
from typing import Any

from core.base import logs
from core.base.clock import as_text, real_sleep
from core.base.errors import GatewayUnavailable
from core.providers.gateway import Gateway
from core.providers.invoices import Invoice, read_invoice

PAUSES_S = (0.0, 0.5, 2.0)  # before each attempt to read a page; the gateway may limit the rate of calls
PER_PAGE = 50  # a page is read up to 1 MiB, and an invoice has some kilobytes
log = logs.get("gateway")


async def changed_since(gateway: Gateway, since: dt.datetime) -> AsyncIterator[list[Invoice]]:
    """Yield the invoices that were made or paid since a moment of real time; some come twice.

    Raises GatewayUnavailable.
    """
    for field in ("created_after", "paid_after"):
        async for page in _pages(gateway, {field: as_text(since), "limit": str(PER_PAGE)}):
            yield page


async def _pages(gateway: Gateway, query: dict[str, str]) -> AsyncIterator[list[Invoice]]:
    """Yield pages until one is empty: the gateway may send fewer than PER_PAGE of them before the last page."""
    seen: set[str] = set()
    while page := await _page(gateway, query):
        found = [invoice for invoice in map(read_invoice, page) if invoice is not None]
        if all(invoice.id in seen for invoice in found):
            log.error("the gateway lists the same invoices again", last_invoice=query.get("last_invoice"))
            raise GatewayUnavailable
        seen |= {invoice.id for invoice in found}
        yield found
        query = {**query, "last_invoice": found[-1].id}


async def _page(gateway: Gateway, query: dict[str, str]) -> list[Any]:
    for pause in PAUSES_S:
        await real_sleep(pause)
        page = await gateway.page(query)
        if page is not None:
            return page
    raise GatewayUnavailable
