"""List the invoices of the payment gateway since a time, page by page (docs/protocol.md#payment-gateway)."""

import datetime as dt
import operator
from collections.abc import AsyncIterator

from core.base.clock import as_text
from core.providers import gateway_lists
from core.providers.gateway import Gateway
from core.providers.invoices import Invoice, read_invoice

PER_PAGE = 50  # a page is read up to 1 MiB, and an invoice has some kilobytes


async def changed_since(gateway: Gateway, since: dt.datetime) -> AsyncIterator[list[Invoice]]:
    """Yield the invoices that were made or paid since a moment of real time; some come twice.

    Raises GatewayUnavailable.
    """
    for field in ("created_after", "paid_after"):
        async for page in gateway_lists.pages(
            gateway.page,
            {field: as_text(since), "limit": str(PER_PAGE)},
            parse=read_invoice,
            id_of=operator.attrgetter("id"),
            after="last_invoice",
            repeated="the gateway lists the same invoices again",
        ):
            yield page
