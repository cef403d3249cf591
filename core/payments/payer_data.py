"""Mask the payer's data in the gateway's calls about erased customers (docs/privacy.md#erasure).

An erasure masks the calls that are stored before it. The gateway still has the payer's data, so later calls are masked
with their result.
"""

import json
from collections.abc import Sequence
from typing import Any

from core.base.ids import parse_id
from core.base.plain_json import plain_text
from core.erasures import store as erasures
from core.payments.gateway_calls import CallCase
from core.payments.webhooks import erasing
from core.payments.webhooks import store as webhooks
from core.payments.webhooks.store import MAX_BODY, Abandoned, Received
from core.storage.transaction import Reader, Tx
from core.telemetry import logs

log = logs.get("payments")


async def row_of_answer(
    tx: Tx,
    body: dict[str, Any] | None,
    *,
    log_id: str,
    external_id: str | None,
    invoice_id: str | None,
    app_tag: str | None = None,
    replay_of: str | None = None,
) -> Received:
    """Return the log row of what the gateway's API has answered about an invoice or a refund; None: it knows none.

    The body is masked if the customer is erased.
    """
    raw_body = b"" if body is None else json.dumps(body).encode()
    if raw_body and any(await _erased(tx, [external_id], [invoice_id])):
        raw_body = erasing.masked(raw_body)
    fields = body or {}
    return Received(
        id=log_id,
        received_at=tx.now,
        source_ip="",
        headers={},
        token_valid=True,  # it comes from the gateway's API
        external_id=external_id,
        gateway_invoice_id=invoice_id,
        status=plain_text(fields.get("status")),
        amount=plain_text(fields.get("amount")),
        app_tag=app_tag,
        raw_body=raw_body[:MAX_BODY],
        truncated=len(raw_body) > MAX_BODY,
        replay_of=replay_of,
        source=webhooks.POLL,
    )


async def log_conflict(tx: Tx, found: Received, note: str) -> None:
    """Log what the gateway has and what does not fit ours, for an operator. The same row is logged once."""
    if await webhooks.record(tx, found):
        await webhooks.stamp(
            tx, found.id, http_status=CallCase.CONFLICT.http_status, result=CallCase.CONFLICT.result, error=note
        )
        log.error("the gateway has money that does not fit", webhook_log_id=found.id, about=found.external_id)


async def mask(tx: Tx, call: Received) -> None:
    """Mask the stored body of a call, and those of earlier calls that name the same request or invoice.

    If there are many earlier ones, the sweep of erasures masks the rest.
    """
    requests, invoices = await _erased(tx, [call.external_id], [call.gateway_invoice_id])
    if not requests and not invoices:
        return
    await erasing.replace_body(tx, call.id, erasing.masked(call.raw_body))
    # Earlier calls that ended in an exception before the erasure knew of them.
    earlier = await erasing.bodies(tx, request_ids=requests, invoice_ids=invoices, after=erasing.NO_ID)
    for log_id, body in earlier:
        if log_id != call.id and (masked := erasing.masked(body)) != body:
            await erasing.replace_free_body(tx, log_id, masked)
    if len(earlier) == erasing.AT_ONCE:
        erased = await erasures.of_lines(tx, request_ids=requests, invoice_ids=invoices)
        await erasures.reopen(tx, sorted(set(erased.values())))


async def mask_abandoned(tx: Tx, calls: Sequence[Abandoned]) -> None:
    """Mask the stored bodies of calls that their processes could not mask. The caller has locked them."""
    requests, invoices = await _erased(
        tx, [one.external_id for one in calls], [one.gateway_invoice_id for one in calls]
    )
    for one in calls:
        if parse_id(one.external_id) in requests or one.gateway_invoice_id in invoices:
            call = await webhooks.get(tx, one.id)
            assert call is not None
            await erasing.replace_body(tx, one.id, erasing.masked(call.raw_body))


async def _erased(
    reader: Reader, external_ids: Sequence[str | None], invoice_ids: Sequence[str | None]
) -> tuple[list[str], list[str]]:
    """Return those of the (requests, invoices) whose customer is erased."""
    requests = [known for one in external_ids if (known := parse_id(one)) is not None]
    invoices = [one for one in invoice_ids if one is not None]
    erased = await erasures.of_lines(reader, request_ids=requests, invoice_ids=invoices)
    return [one for one in requests if one in erased], [one for one in invoices if one in erased]
