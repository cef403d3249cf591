"""Reads of what is compared with the gateway."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from core.payments.gateway_calls import Issued
from core.payments.reconciliation.rules import KnownRefund, KnownRequest
from core.payments.states import PaymentStatus
from core.storage import sql_files
from core.storage.records import as_dict, one
from core.storage.transaction import Reader

SQL = sql_files.load(__file__)
AT_ONCE = 500  # rows in one statement


async def known_requests(reader: Reader, request_ids: Sequence[str]) -> dict[str, KnownRequest]:
    """Return the requests that exist, by id."""
    rows = await reader.fetch(SQL["requests"], request_ids)
    return {row["id"]: _known_request(row) for row in map(as_dict, rows)}


async def listed_since(reader: Reader, since: dt.datetime) -> int:
    """Return how many invoices the gateway lists since a moment of service time, about; some are listed twice."""
    return await reader.fetchval(SQL["listed_since"], since)


async def requests_since(
    reader: Reader, since: dt.datetime, *, after: tuple[dt.datetime, str] | None = None
) -> list[tuple[dt.datetime, str]]:
    """Return (when it was made, id) of requests that wait for money or have it, made or confirmed since a time.

    At most AT_ONCE, in order; with `after`, those that follow it.
    """
    rows = await reader.fetch(SQL["requests_since"], since, after and after[0], after and after[1], AT_ONCE)
    return [(row["created_at"], str(row["id"])) for row in rows]


def _known_request(row: dict[str, Any]) -> KnownRequest:
    issued = Issued(
        status=PaymentStatus(row["status"]),
        amount=row["amount"],
        expires_at=row["expires_at"],
        invoice_id=row["gateway_invoice_id"],
        was_confirmed=row["confirmed_at"] is not None,
        asked_amount=row["asked_amount"],
    )
    return KnownRequest(
        issued=issued,
        by_hand=row["by_hand"] or bool(row["by_twin"]),
        confirmed_at=row["confirmed_at"],
        may_grow=bool(row["may_grow"]),
    )


async def known_refund(reader: Reader, reference: str) -> KnownRefund | None:
    """Return the refund, or the failure without one, that the gateway has by a reference; None if it is not ours."""
    return one(KnownRefund, await reader.fetchrow(SQL["refund"], reference))


async def failure_to_act_on(reader: Reader, payment_request_id: str) -> str | None:
    """Return the failure of a payment request on which no operator has acted; None without one."""
    found = await reader.fetchval(SQL["failure_to_act_on"], payment_request_id)
    return None if found is None else str(found)


async def refunds_since(reader: Reader, begin_id: str) -> list[tuple[str, str]]:
    """Return (our reference, the gateway's id) of the refunds that the gateway has, from an id on."""
    return [
        (str(row["reference"]), row["gateway_refund_id"]) for row in await reader.fetch(SQL["refunds_since"], begin_id)
    ]


async def recorded(reader: Reader, invoice_ids: Sequence[str]) -> set[str]:
    """Return which of these invoices or refunds the log of webhook calls shows as a conflict or as overpaid."""
    return {row["gateway_invoice_id"] for row in await reader.fetch(SQL["recorded"], invoice_ids)}
