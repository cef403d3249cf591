"""Receive the gateway's webhook calls (docs/protocol.md#webhook, docs/invariants.md#i10).

A call takes two transactions. The first stores it before its token is compared. The second has its effect and stamps
the log row with the result. So a row without a stamp had no effect. If the gateway does not repeat that call, a poll
finds the payment (core/payments/poll.py). `Case` in core/payments/gateway_calls.py holds the answer to each call.

Anyone can send calls without a valid token. They have no effect and must not delay genuine ones, so few connections
store calls whose token isn't known, and core/payments/webhooks/unproven.py limits how many such calls are stored. Above
a limit, and while these connections are busy, the token is compared first: a call with a valid one is stored anyway,
and others are counted. A call that has such a connection waits for its row as long as it can: with a valid token until
the gateway needs the answer, without one for some seconds more.
"""

import asyncio
import datetime as dt
from collections.abc import Mapping

from core.base.clock import monotonic
from core.base.id_ranges import EPOCH, first_id, since
from core.bus.inbox import InboxKind
from core.payments import gateway_calls, payer_data
from core.payments.gateway_calls import Case, ProcessingResult
from core.payments.webhooks import calls, rows
from core.payments.webhooks import store as webhooks
from core.payments.webhooks.calls import ANSWER_S, Answer, WebhookCall
from core.payments.webhooks.rows import First, Incoming
from core.payments.webhooks.store import MAX_BODY, Received
from core.payments.webhooks.unproven import KEPT
from core.runtime.container import Runtime
from core.telemetry import logs, metrics

log = logs.get("webhook")
metrics.start_at_zero(metrics.WEBHOOK_CALLS, ProcessingResult)


def is_genuine(runtime: Runtime, headers: Mapping[str, str]) -> bool:
    """Return whether a call carries a valid callback token. `headers` must have lower-case names."""
    return gateway_calls.is_callback_token(headers.get(rows.TOKEN), runtime.settings.gateway_callback_token)


async def receive(runtime: Runtime, incoming: Incoming) -> Answer:
    """Store a call, judge it, apply its effect and stamp its log row. Return the response."""
    answer = await _receive(runtime, incoming)
    metrics.WEBHOOK_CALLS.labels(answer.processing_result).inc()
    return answer


async def _receive(runtime: Runtime, incoming: Incoming) -> Answer:
    answer_by = monotonic() + ANSWER_S
    first = await rows.store_first(runtime, incoming)
    genuine = is_genuine(runtime, incoming.headers)
    await rows.settle(first, genuine=genuine)
    if not genuine:
        return await _refuse_unproven(runtime, incoming, first)
    parsed = first.parsed or calls.parse(runtime, incoming.body)
    call = rows.received(incoming, parsed.named, first, kept=MAX_BODY, token_valid=True)
    is_logged = await rows.store_genuine(runtime, call, incoming.body, first)
    answer = await calls.process(
        runtime, WebhookCall(received=call, content=parsed.content, is_logged=is_logged), answer_by
    )
    _show(runtime, call, answer)
    return answer


async def _refuse_unproven(runtime: Runtime, incoming: Incoming, first: First) -> Answer:
    """Answer 401 to a call without a valid token, and store or count it. Never raises."""
    if first.wait_s:
        metrics.LIMITED.labels("webhook_unproven").inc()
        await rows.count(runtime, incoming, first)
        return Answer(
            http_status=Case.FLOOD.http_status,
            processing_result=Case.FLOOD.result,
            retry_after_seconds=first.wait_s,
        )
    parsed = first.parsed or calls.parse(runtime, incoming.body)
    call = rows.received(incoming, parsed.named, first, kept=KEPT, token_valid=False)
    await asyncio.wait(
        {runtime.tasks.follow(rows.keep_unproven(runtime, incoming, call, first))},
        timeout=rows.SLOW_S,
    )
    log.info("webhook", webhook_log_id=call.id, result=Case.UNAUTHORIZED.result)
    answer = Answer(http_status=Case.UNAUTHORIZED.http_status, processing_result=Case.UNAUTHORIZED.result)
    _show(runtime, call, answer)
    return answer


def _show(runtime: Runtime, call: Received, answer: Answer) -> None:
    """Show a webhook call with its result, in the development inbox."""
    if runtime.inbox is not None:
        data = {
            "http_status": answer.http_status,
            "gateway_invoice_id": call.gateway_invoice_id,
            "status": call.status,
            "amount": call.amount,
            "token_valid": call.token_valid,
            "source_ip": call.source_ip,
        }
        runtime.inbox.add(InboxKind.WEBHOOK, to=call.external_id or "", text=str(answer.processing_result), **data)


async def close_abandoned_calls(runtime: Runtime) -> None:
    """Sweep: stamp calls of the last month whose process died before it answered."""
    age = dt.timedelta(seconds=60 * max(1.0, runtime.settings.sesi_time_scale))
    await _close(runtime, age, since(runtime.now() - webhooks.ORPHANED_FOR, scale=runtime.clock.scale))


async def close_old_calls(runtime: Runtime) -> None:
    """Sweep: stamp older calls whose process died before it answered, after an outage of more than a month."""
    await _close(runtime, webhooks.ORPHANED_FOR, first_id(EPOCH))


async def _close(runtime: Runtime, age: dt.timedelta, begin_id: str) -> None:
    while True:
        async with runtime.transaction() as tx:
            closed = await webhooks.close_abandoned_calls(tx, before=tx.now - age, begin_id=begin_id)
            await payer_data.mask_abandoned(tx, closed)
        if len(closed) < webhooks.ORPHANS_AT_ONCE:
            return
