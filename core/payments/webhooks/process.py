"""Judge a webhook call of the gateway, apply its effect and stamp its log row (docs/protocol.md#webhook)."""

import asyncio
import datetime as dt

import attrs

from core.base.clock import monotonic
from core.base.errors import Unavailable
from core.payments import gateway_calls, gateway_events, payer_data
from core.payments.gateway_calls import (
    CallCase,
    InvoiceCall,
    Judgement,
    ParsedCall,
    ProcessingResult,
    RefundCall,
    UnreadableCall,
)
from core.payments.refunds import apply
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
class ReplyToGateway:
    """The response to the gateway."""

    http_status: int
    processing_result: ProcessingResult
    retry_after_seconds: int | None = None


@attrs.frozen(kw_only=True)
class WebhookCall:
    """A call that is processed.

    `is_logged`: the log has its row, which gets the result. `came_at` is when the call first arrived, if that was
    before it was stored.
    """

    received: Received
    content: InvoiceCall | RefundCall | UnreadableCall
    is_logged: bool
    came_at: dt.datetime | None = None

    async def mask(self, tx: Tx) -> None:
        """Mask the payer's data in its row if the customer is erased."""
        if self.is_logged:
            await payer_data.mask(tx, self.received)

    async def stamp(self, tx: Tx, case: CallCase, note: str | None) -> None:
        """Store the result in its row."""
        if self.is_logged:
            await webhooks.stamp(
                tx,
                self.received.id,
                http_status=case.http_status,
                result=case.result,
                error=note,
                token_valid=self.received.token_valid,
            )

    async def leave_to_sweep(self, tx: Tx, error: str) -> None:
        """Store why its handling ended, without a result: the sweep masks and stamps its row."""
        await webhooks.note_error(tx, self.received.id, error, token_valid=self.received.token_valid)


def parse(runtime: Runtime, raw: bytes) -> ParsedCall:
    """Read a body, of which a byte more than MAX_BODY may be there: then it is no JSON."""
    return gateway_calls.parse(raw[: MAX_BODY + 1], app_tag=runtime.settings.gateway_app_tag)


async def process(runtime: Runtime, call: WebhookCall, answer_by: float) -> ReplyToGateway:
    """Judge a call, apply its effect and stamp its log row by `answer_by` (monotonic seconds)."""
    log_id = call.received.id
    try:
        async with asyncio.timeout(answer_by - monotonic()), runtime.transaction() as tx:
            judgement = await _act(tx, call)
            await call.mask(tx)
            await call.stamp(tx, judgement.case, judgement.note)
    except Exception as error:
        if not isinstance(error, Unavailable | TimeoutError):
            log.exception("processing a webhook call failed", webhook_log_id=log_id)
        await _stamp_failed(runtime, call, error)
        return ReplyToGateway(http_status=CallCase.ERROR.http_status, processing_result=CallCase.ERROR.result)
    case = judgement.case
    log.info("webhook", webhook_log_id=log_id, result=case.result, http_status=case.http_status)
    return ReplyToGateway(http_status=case.http_status, processing_result=case.result)


async def _act(tx: Tx, call: WebhookCall) -> Judgement:
    if not call.received.token_valid:
        return Judgement(case=CallCase.UNAUTHORIZED)
    if call.received.truncated:
        return Judgement(case=CallCase.TOO_LARGE, note="the body is over 64 KiB")
    match call.content:
        case InvoiceCall():
            received_at = call.came_at or call.received.received_at
            return await gateway_events.apply_call(tx, call.content, received_at=received_at)
        case RefundCall():
            return await apply.apply(tx, call.content)
        case UnreadableCall():
            return Judgement(case=call.content.case)


async def _stamp_failed(runtime: Runtime, call: WebhookCall, error: Exception) -> None:
    """Mask the log row and stamp it with an exception.

    A row that could not be masked gets no result, because no one masks it afterwards: the sweep does both later.
    """
    if not call.is_logged:
        return
    is_masked = False
    try:
        # Apart from the stamp, which must not wait for locks on payment requests.
        async with asyncio.timeout(MASK_S), runtime.transaction() as tx:
            await call.mask(tx)
        is_masked = True
    except Exception as second:
        log.warning("masking a failed webhook call failed", error=type(second).__name__)
    try:
        async with asyncio.timeout(LAST_STEP_S), runtime.transaction() as tx:
            if is_masked:
                await call.stamp(tx, CallCase.ERROR, type(error).__name__)
            else:
                await call.leave_to_sweep(tx, type(error).__name__)
    except Exception as second:
        log.warning("storing the result of a webhook call failed", error=type(second).__name__)
