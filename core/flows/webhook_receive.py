"""Receive the gateway's webhook calls (docs/protocol.md#webhook, docs/invariants.md#i10).

A call with a valid token takes two transactions. The first stores the call before it is judged. The second has its
effect and stamps the log row with the result. So a row without a stamp had no effect. If the gateway does not repeat
that call, a poll finds the payment (core/flows/invoice_poll.py). `Case` in core/payments/gateway_calls.py holds the
answer to each call.

Anyone can send calls without a valid token. They have no effect and must not delay genuine ones, so they are handled
separately. UNPROVEN limits how many of them are stored in full for each address, with one statement each and on few
connections; the others are counted.
"""

import asyncio
import datetime as dt
from collections.abc import Mapping
from typing import Any

import attrs

from core.base import ids, logs, metrics
from core.base.addresses import who_has
from core.base.clock import monotonic
from core.base.id_ranges import EPOCH, first_id, since
from core.base.plain_json import plain_text
from core.bus.buckets import Limit, charges_of_address
from core.bus.rate_limit import RateLimited
from core.payments import gateway_calls
from core.payments.gateway_calls import Case, ProcessingResult
from core.refunds import calls as refund_calls
from core.runtime import Runtime
from core.steps import inbox, payer_data, webhook_calls
from core.steps.webhook_calls import ANSWER_S, Answer
from core.webhooks import store as webhooks
from core.webhooks.store import MAX_BODY, Received

log = logs.get("webhook")
RECORD_S = 0.8  # real seconds, of the ANSWER_S in which the response must be sent
# How many calls without a valid token are stored in full for each address: enough to see what a misconfigured caller
# sends.
UNPROVEN = Limit(name="webhook_unproven", per_minute=60, burst=60)
# Lines for such calls in the fallback file, for all addresses together: at most 5 MiB a minute of disk space that
# genuine calls need.
UNPROVEN_LINES = Limit(name="webhook_unproven_lines", per_minute=60, burst=60)
TOKEN = "x-callback-token"  # noqa: S105 - the name of a header
HEADERS_KEPT = 40
HEADERS_SIZE = 8_192  # characters of all names and values
metrics.start_at_zero(metrics.WEBHOOK_CALLS, ProcessingResult)


@attrs.frozen(kw_only=True)
class Incoming:
    """A webhook call as received."""

    body: bytes
    headers: dict[str, str]
    source_ip: str


def is_genuine(runtime: Runtime, headers: Mapping[str, str]) -> bool:
    """Return whether a call carries a valid callback token. `headers` must have lower-case names."""
    return gateway_calls.is_callback_token(headers.get(TOKEN), runtime.settings.gateway_callback_token)


async def receive(runtime: Runtime, incoming: Incoming) -> Answer:
    """Store a call, judge it, apply its effect and stamp its log row. Return the response."""
    answer = await _receive(runtime, incoming)
    metrics.WEBHOOK_CALLS.labels(answer.processing_result).inc()
    return answer


async def _receive(runtime: Runtime, incoming: Incoming) -> Answer:
    answer_by = monotonic() + ANSWER_S
    if not is_genuine(runtime, incoming.headers):
        return await _refuse_unproven(runtime, incoming)
    body = webhook_calls.parse(incoming.body)
    call = _received(runtime, incoming, body, token_valid=True)
    recorded = await _record(runtime, call)
    answer = await webhook_calls.process(runtime, call, body, answer_by, recorded=recorded)
    inbox.show_webhook_call(runtime, call, answer)
    return answer


async def _refuse_unproven(runtime: Runtime, incoming: Incoming) -> Answer:
    """Answer 401 to a call without a valid token, and store or count it. Never raises."""
    now = runtime.now()
    address = who_has(incoming.source_ip)
    try:
        await runtime.rate_limit.take_all(
            charges_of_address(UNPROVEN, incoming.source_ip), now_us=int(now.timestamp() * 1_000_000)
        )
    except RateLimited as error:
        await runtime.flood_counts.add(address=address, body=incoming.body, received_at=now)
        return Answer(
            http_status=Case.FLOOD.http_status,
            processing_result=Case.FLOOD.result,
            retry_after_seconds=error.retry_after_seconds,
        )
    call = _received(runtime, incoming, webhook_calls.parse(incoming.body), token_valid=False)
    await asyncio.wait({runtime.tasks.follow(_keep_unproven(runtime, call))}, timeout=RECORD_S)
    log.info("webhook", webhook_log_id=call.id, result=Case.UNAUTHORIZED.result)
    answer = Answer(http_status=Case.UNAUTHORIZED.http_status, processing_result=Case.UNAUTHORIZED.result)
    inbox.show_webhook_call(runtime, call, answer)
    return answer


async def _keep_unproven(runtime: Runtime, call: Received) -> None:
    """Store a call without a valid token: in the log, else in the fallback file, else as a count.

    A slow statement is not cancelled, because the server would still be busy with it when the next one starts.
    """
    try:
        async with asyncio.timeout(RECORD_S):
            await runtime.unproven_calls.acquire()
        try:
            await webhooks.record_unauthorized(runtime.db, call)
        finally:
            runtime.unproven_calls.release()
    except Exception as error:
        log.warning("storing a webhook call without a valid token failed", error=type(error).__name__)
    else:
        return
    if not await _unproven_to_file(runtime, call):
        await runtime.flood_counts.add(
            address=who_has(call.source_ip), body=call.raw_body, received_at=call.received_at
        )


async def _unproven_to_file(runtime: Runtime, call: Received) -> bool:
    try:
        await runtime.rate_limit.take(UNPROVEN_LINES, "all", now_us=int(call.received_at.timestamp() * 1_000_000))
    except RateLimited:
        return False
    return await webhook_calls.to_file(runtime, call)


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers to store: no secrets, at most HEADERS_KEPT of them with HEADERS_SIZE characters."""
    kept: dict[str, str] = {}
    room = HEADERS_SIZE
    for name, value in headers.items():
        if name in (TOKEN, "authorization", "cookie"):
            continue
        text = plain_text(value, 1000) or ""
        room -= len(name) + len(text)
        if room < 0 or len(kept) == HEADERS_KEPT:
            break
        kept[name] = text
    return kept


def _received(runtime: Runtime, incoming: Incoming, body: Any, *, token_valid: bool) -> Received:
    fields = refund_calls.logged(body)
    metadata = fields.get("metadata")
    return Received(
        id=ids.new_id(),
        received_at=runtime.now(),
        source_ip=incoming.source_ip[:45],
        headers=_kept(incoming.headers),
        token_valid=token_valid,
        external_id=plain_text(fields.get("external_id")),
        gateway_invoice_id=plain_text(fields.get("id")),
        status=plain_text(fields.get("status")),
        amount=plain_text(fields.get("amount")),
        app_tag=plain_text(metadata.get("app")) if isinstance(metadata, dict) else None,
        raw_body=incoming.body[:MAX_BODY],
        truncated=len(incoming.body) > MAX_BODY,
    )


async def _record(runtime: Runtime, call: Received) -> bool:
    """Store a call in the log, or in the fallback file if the database fails. Return whether the log has it."""
    try:
        async with asyncio.timeout(RECORD_S), runtime.transaction() as tx:
            await webhooks.record(tx, call)
    except Exception as error:
        log.warning("storing a webhook call failed", error=type(error).__name__)
        await webhook_calls.to_file(runtime, call)
        return False
    return True


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
