"""Judge a webhook call of the gateway, apply its effect and stamp its log row (docs/protocol.md#webhook)."""

import asyncio
import datetime as dt
import json
from typing import Any

import attrs

from core.accounts.customers import store as customers
from core.base.clock import monotonic
from core.base.errors import Unavailable
from core.payments import gateway_calls, gateway_events, payer_data, store
from core.payments.gateway_calls import Case, ProcessingResult
from core.payments.refunds import apply
from core.payments.refunds import calls as refund_calls
from core.payments.webhooks import store as webhooks
from core.payments.webhooks.store import MAX_BODY, Received
from core.runtime.container import Runtime
from core.storage.transaction import Tx
from core.telemetry import logs

log = logs.get("webhook")
# Real seconds. The response must be sent within 2 s: the gateway never repeats a call that timed out, but it does
# repeat one that was answered with 500. The effect has the time that storing the call has left.
ANSWER_S = 1.6
LAST_STEP_S = 0.2
MASK_S = 0.1


@attrs.frozen(kw_only=True)
class Answer:
    """The response to the gateway."""

    http_status: int
    processing_result: ProcessingResult
    retry_after_seconds: int | None = None


def parse(raw: bytes) -> Any:
    """Return the JSON of a body, None if it is not JSON."""
    try:
        return json.loads(raw[: MAX_BODY + 1])
    except (ValueError, RecursionError):
        return None


async def to_file(runtime: Runtime, call: Received) -> bool:
    """Write a call to the fallback file; return whether that succeeded."""
    return await runtime.webhook_sink.write(received_at=call.received_at, raw_body=call.raw_body, fields=call.fields())


async def process(
    runtime: Runtime,
    call: Received,
    body: Any,
    answer_by: float,
    *,
    recorded: bool,
    came_at: dt.datetime | None = None,
) -> Answer:
    """Judge a call, apply its effect and stamp its log row by `answer_by` (monotonic seconds).

    `recorded` says that the log has the call. `came_at` is when the call first arrived, if that was before it was
    stored.
    """
    try:
        async with asyncio.timeout(answer_by - monotonic()), runtime.transaction() as tx:
            case, note = await _act(runtime, tx, call, body, came_at or call.received_at)
            if recorded:
                await payer_data.mask(tx, call)
                await webhooks.stamp(
                    tx,
                    call.id,
                    http_status=case.http_status,
                    result=case.result,
                    error=note,
                    token_valid=call.token_valid,
                )
    except Exception as error:
        if not isinstance(error, Unavailable | TimeoutError):
            log.exception("processing a webhook call failed", webhook_log_id=call.id)
        return await _failed(runtime, call, recorded, error)
    log.info("webhook", webhook_log_id=call.id, result=case.result, http_status=case.http_status)
    return Answer(http_status=case.http_status, processing_result=case.result)


async def _act(runtime: Runtime, tx: Tx, call: Received, body: Any, came_at: dt.datetime) -> tuple[Case, str | None]:
    if not call.token_valid:
        return Case.UNAUTHORIZED, None
    if call.truncated:
        return Case.TOO_LARGE, "the body is over 64 KiB"
    refund = refund_calls.refund_in(body)
    if refund is not None:
        report = refund_calls.read_report(refund, app_tag=runtime.settings.gateway_app_tag)
        return (report, None) if isinstance(report, Case) else await apply.apply(tx, report)
    readable = gateway_calls.read_call(body, app_tag=runtime.settings.gateway_app_tag)
    if isinstance(readable, Case):
        return readable, None
    first = await store.get(tx, readable.external_id)
    if first is None:
        return Case.UNKNOWN, None
    known = first.confirmed_at is not None and first.gateway_invoice_id is not None
    if known and not await gateway_events.has_more_money(tx, first, readable):
        return await gateway_events.apply_late(tx, first, readable, received_at=came_at), None
    account = await customers.lock_account(tx, first.customer_id)
    payment = await store.lock(tx, first.id)
    assert payment is not None
    return await gateway_events.apply(tx, payment, account, readable, received_at=came_at)


async def _failed(runtime: Runtime, call: Received, recorded: bool, error: Exception) -> Answer:
    """Mask the log row and stamp it with an exception. If stamping fails too, the sweep does both later."""
    if recorded:
        try:
            await _mask(runtime, call)
            async with asyncio.timeout(LAST_STEP_S), runtime.transaction() as tx:
                await webhooks.stamp(
                    tx,
                    call.id,
                    http_status=Case.ERROR.http_status,
                    result=Case.ERROR.result,
                    error=type(error).__name__,
                    token_valid=call.token_valid,
                )
        except Exception as second:
            log.warning("storing the result of a webhook call failed", error=type(second).__name__)
    return Answer(http_status=Case.ERROR.http_status, processing_result=Case.ERROR.result)


async def _mask(runtime: Runtime, call: Received) -> None:
    """Mask the log row of a failed call, apart from its stamp: that must not wait for locks on payment requests."""
    try:
        async with asyncio.timeout(MASK_S), runtime.transaction() as tx:
            await payer_data.mask(tx, call)
    except Exception as error:
        log.warning("masking a failed webhook call failed", error=type(error).__name__)
