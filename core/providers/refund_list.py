"""List the refunds of the payment gateway, page by page (docs/protocol.md#refunds)."""

import operator
from collections.abc import AsyncIterator
from typing import Any

from core.base.plain_json import storable
from core.providers import gateway_lists
from core.providers.refunds import MOST_LISTED, Refunds


def pages(gateway: Refunds) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield pages until one is empty; each refund has an id. Raises GatewayUnavailable."""
    return gateway_lists.pages(
        gateway.page,
        {"limit": MOST_LISTED},
        parse=_with_id,
        id_of=operator.itemgetter("id"),
        after="after_id",
        repeated="the gateway lists the same refunds again",
    )


def _with_id(refund: Any) -> dict[str, Any] | None:
    return refund if isinstance(refund, dict) and storable(refund.get("id")) is not None else None
