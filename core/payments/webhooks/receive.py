"""Receive the gateway's webhook calls (docs/protocol.md#webhook, docs/invariants.md#i10).

A call takes two transactions. The first stores it before its token is compared. The second has its effect and stamps
the log row with the result. So a row without a stamp had no effect. If the gateway does not repeat that call, a poll
finds the payment (core/payments/poll.py). `CallCase` in core/payments/gateway_calls.py holds the answer to each call.

Anyone can send calls without a valid token. They have no effect and must not delay genuine ones, so few connections
store calls whose token isn't known, and core/payments/webhooks/unproven.py limits how many such calls are stored. Above
a limit, and while these connections are busy, the token is compared first: a call with a valid one is stored anyway,
and others are counted. A call that has such a connection waits for its row as long as it can: with a valid token until
the gateway needs the answer, without one for some seconds more.
"""

import asyncio
import datetime as dt
import hashlib
from collections.abc import Mapping

import attrs

from core.base import ids
from core.base.addresses import plain_of
from core.base.clock import monotonic
from core.base.errors import Unavailable
from core.base.id_ranges import EPOCH, first_id, since
from core.base.plain_json import plain_text
from core.bus.buckets import Limit
from core.bus.inbox import InboxKind
from core.bus.rate_limit import RateLimited
from core.payments import gateway_calls, payer_data
from core.payments.gateway_calls import CallCase, NamedFields, ParsedCall, ProcessingResult
from core.payments.webhooks import store as webhooks
from core.payments.webhooks.flood_counts import FloodCounts
from core.payments.webhooks.process import ANSWER_S, ReplyToGateway, WebhookCall, parse, process
from core.payments.webhooks.store import MAX_BODY, Received
from core.payments.webhooks.unproven import KEPT, UnprovenCalls
from core.runtime.container import Runtime
from core.storage.transaction import Tx
from core.telemetry import logs, metrics

log = logs.get("webhook")
metrics.start_at_zero(metrics.WEBHOOK_CALLS, ProcessingResult)
RECORD_S = 0.8  # real seconds, of the ANSWER_S in which the response must be sent
TURN_S = 0.1  # real seconds that a call waits for a connection before its token is compared
# Further real seconds for the row of a call without a valid token, and for its result: its answer is not urgent. Only
# calls that have one of the few connections wait for them, so a flood does not pile up.
SLOW_S = 3.0
# Lines for such calls in the fallback file, for all addresses together: at most 5 MiB a minute of disk space that
# genuine calls need.
UNPROVEN_LINES = Limit(name="webhook_unproven_lines", per_minute=60, burst=60)
TOKEN = "x-callback-token"  # noqa: S105 - the name of a header
HEADERS_KEPT = 40
HEADERS_SIZE = 8_192  # characters of all names and values
MOST_DIGITS = 15  # of an announced length


@attrs.frozen(kw_only=True)
class Incoming:
    """A webhook call as received."""

    body: bytes
    headers: dict[str, str]
    source_ip: str


@attrs.define(kw_only=True)
class First:
    """What happened to a call before its token was compared.

    It was `admitted` by the limits, and is `stored`. Or `storing` it takes longer, or it `failed`, or took too long. Or
    it must not be stored if its token is invalid, for `wait_s` seconds. Or the connections were busy.
    """

    call_id: str = attrs.field(factory=ids.new_id)
    received_at: dt.datetime
    storing: asyncio.Task[None] | None = None
    admitted: bool = False
    stored: bool = False
    failed: bool = False
    wait_s: int = 0
    parsed: ParsedCall | None = None


def is_genuine(runtime: Runtime, headers: Mapping[str, str]) -> bool:
    """Return whether a call carries a valid callback token. `headers` must have lower-case names."""
    return gateway_calls.is_callback_token(headers.get(TOKEN), runtime.settings.gateway_callback_token)


async def receive(runtime: Runtime, incoming: Incoming) -> ReplyToGateway:
    """Store a call, judge it, apply its effect and stamp its log row. Return the response."""
    answer = await _receive(runtime, incoming)
    metrics.WEBHOOK_CALLS.labels(answer.processing_result).inc()
    return answer


async def _receive(runtime: Runtime, incoming: Incoming) -> ReplyToGateway:
    answer_by = monotonic() + ANSWER_S
    first = await _store_first(runtime, incoming)
    genuine = is_genuine(runtime, incoming.headers)
    await _settle(first, genuine=genuine)
    if not genuine:
        return await _refuse_unproven(runtime, incoming, first)
    parsed = first.parsed or parse(runtime, incoming.body)
    call = _received(incoming, parsed.named, first, kept=MAX_BODY, token_valid=True)
    is_logged = await _store_genuine(runtime, call, incoming.body, first)
    answer = await process(runtime, WebhookCall(received=call, content=parsed.content, is_logged=is_logged), answer_by)
    _show(runtime, call, answer)
    return answer


async def _refuse_unproven(runtime: Runtime, incoming: Incoming, first: First) -> ReplyToGateway:
    """Answer 401 to a call without a valid token, and store or count it. Never raises."""
    if first.wait_s:
        metrics.LIMITED.labels("webhook_unproven").inc()
        await _count(runtime, incoming, first)
        return ReplyToGateway(
            http_status=CallCase.FLOOD.http_status,
            processing_result=CallCase.FLOOD.result,
            retry_after_seconds=first.wait_s,
        )
    parsed = first.parsed or parse(runtime, incoming.body)
    call = _received(incoming, parsed.named, first, kept=KEPT, token_valid=False)
    await asyncio.wait(
        {runtime.tasks.follow(_keep_unproven(runtime, incoming, call, first))},
        timeout=SLOW_S,
    )
    log.info("webhook", webhook_log_id=call.id, result=CallCase.UNAUTHORIZED.result)
    answer = ReplyToGateway(
        http_status=CallCase.UNAUTHORIZED.http_status, processing_result=CallCase.UNAUTHORIZED.result
    )
    _show(runtime, call, answer)
    return answer


def _show(runtime: Runtime, call: Received, answer: ReplyToGateway) -> None:
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


def _unproven(runtime: Runtime) -> UnprovenCalls:
    return UnprovenCalls(runtime.db, runtime.settings)


def _flood_counts(runtime: Runtime) -> FloodCounts:
    counts = FloodCounts(runtime.db)
    runtime.closing.append(counts.close)
    return counts


async def _store_first(runtime: Runtime, incoming: Incoming) -> First:
    """Store a call before its token is compared, unless a limit refuses it or the log is slow. Never raises.

    A slow statement is not cancelled, because the server would still be busy with it when the next one starts.
    `_settle` must follow.
    """
    first = First(received_at=runtime.now())
    try:
        async with asyncio.timeout(TURN_S):
            await runtime.part(_unproven).connections.acquire()
    except TimeoutError:
        return first
    first.storing = runtime.tasks.follow(_look_and_store(runtime, incoming, first))
    await asyncio.wait({first.storing}, timeout=RECORD_S)
    return first


async def _settle(first: First, *, genuine: bool) -> None:
    """Give up a call's first row if it takes too long. Only a call without a valid token can wait for it."""
    if first.storing is not None and not first.storing.done() and not genuine:
        await asyncio.wait({first.storing}, timeout=SLOW_S)
    if first.storing is not None and not first.storing.done():
        log.warning("storing a webhook call failed", error="TimeoutError")
        first.failed = True


async def _look_and_store(runtime: Runtime, incoming: Incoming, first: First) -> None:
    """Store a call if the limits allow it, over a connection that the caller has taken."""
    unproven = runtime.part(_unproven)
    try:
        first.wait_s = await unproven.admit(incoming.source_ip, now=first.received_at)
        if first.wait_s:
            return
        first.admitted = True
        first.parsed = parse(runtime, incoming.body)
        call = _received(incoming, first.parsed.named, first, kept=KEPT, token_valid=False)
        await webhooks.record_first(runtime.db, call)
        first.stored = True
        if first.failed:  # it was answered without the row: a line of the fallback file or a count stands for it
            await webhooks.forget_late(runtime.db, first.call_id)
    except Exception as error:
        log.warning("storing a webhook call failed", error=type(error).__name__)
        first.failed = True
    finally:
        unproven.connections.release()
        if first.failed and first.admitted:
            unproven.done(incoming.source_ip)


async def _store_genuine(runtime: Runtime, call: Received, body: bytes, first: First) -> bool:
    """Store what is missing of a call with a valid token. Return whether the log has it; else the file may have it."""
    if first.admitted and not first.failed:
        runtime.part(_unproven).done(call.source_ip)
    if first.failed:
        await _to_file(runtime, call)
        return False
    if not first.stored:
        return await _record(runtime, call)
    if len(body) > KEPT:
        try:
            async with asyncio.timeout(RECORD_S):
                await runtime.part(_unproven).complete(call.id, body, most=MAX_BODY)
        except Exception as error:
            log.warning("storing the whole body of a webhook call failed", error=type(error).__name__)
            await _to_file(runtime, call)
    return True


async def _count(runtime: Runtime, incoming: Incoming, first: First) -> None:
    """Count a call instead of storing it."""
    await runtime.part(_flood_counts).add(host=incoming.source_ip, body=incoming.body, received_at=first.received_at)


async def _keep_unproven(runtime: Runtime, incoming: Incoming, call: Received, first: First) -> None:
    """Store a call without a valid token: in the log, else in the fallback file, else as a count.

    A slow statement is not cancelled, because the server would still be busy with it when the next one starts.
    """
    unproven, host = runtime.part(_unproven), incoming.source_ip
    admitted = first.admitted and not first.failed
    try:
        if first.failed:
            raise Unavailable
        async with asyncio.timeout(RECORD_S):
            await unproven.connections.acquire()
        try:
            if not first.stored:
                if await unproven.admit(host, now=runtime.now()):
                    await _count(runtime, incoming, first)
                    return
                admitted = True
                await webhooks.record_first(runtime.db, call)
            await unproven.refuse(call.id, incoming.body, host, most=MAX_BODY, now=call.received_at)
        finally:
            unproven.connections.release()
    except Exception as error:
        log.warning("storing a webhook call without a valid token failed", error=type(error).__name__)
    else:
        return
    finally:
        if admitted:
            unproven.done(host)
    if not await _unproven_to_file(runtime, call):
        await _count(runtime, incoming, first)


async def _unproven_to_file(runtime: Runtime, call: Received) -> bool:
    try:
        await runtime.rate_limit.take(UNPROVEN_LINES, "all", now_us=int(call.received_at.timestamp() * 1_000_000))
    except RateLimited:
        return False
    return await _to_file(runtime, call)


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


def _received(incoming: Incoming, named: NamedFields, first: First, *, kept: int, token_valid: bool) -> Received:
    """Return a call with the first `kept` bytes of its body."""
    cut = not token_valid and len(incoming.body) > kept
    return Received(
        id=first.call_id,
        received_at=first.received_at,
        source_ip=plain_of(incoming.source_ip)[:45],
        headers=_kept(incoming.headers),
        token_valid=token_valid,
        raw_body=incoming.body[:kept],
        truncated=len(incoming.body) > kept,
        bytes=_length(incoming) if cut else None,
        body_sha256=hashlib.sha256(incoming.body).hexdigest() if cut else None,
        **attrs.asdict(named),
    )


def _length(incoming: Incoming) -> int:
    """Return the length of a body. Of one over the limit the rest is not read; then the caller's word counts."""
    size, announced = len(incoming.body), incoming.headers.get("content-length", "")
    if size > MAX_BODY and len(announced) <= MOST_DIGITS and announced.isascii() and announced.isdigit():
        return max(size, int(announced))
    return size


async def _record(runtime: Runtime, call: Received) -> bool:
    """Store a call in the log, or in the fallback file if the database fails. Return whether the log has it."""
    try:
        async with asyncio.timeout(RECORD_S), runtime.transaction() as tx:
            await webhooks.record(tx, call)
    except Exception as error:
        log.warning("storing a webhook call failed", error=type(error).__name__)
        await _to_file(runtime, call)
        return False
    return True


async def _to_file(runtime: Runtime, call: Received) -> bool:
    """Write a call to the fallback file; return whether that succeeded."""
    return await runtime.webhook_sink.write(received_at=call.received_at, raw_body=call.raw_body, fields=call.fields())


async def close_abandoned_calls(runtime: Runtime) -> None:
    """Sweep: stamp and mask calls of the last month that their processes have left without a result."""
    age = dt.timedelta(seconds=60 * max(1.0, runtime.settings.sesi_time_scale))
    await _close(runtime, age, since(runtime.now() - webhooks.ORPHANED_FOR, scale=runtime.clock.scale))


async def close_old_calls(runtime: Runtime) -> None:
    """Sweep: stamp and mask older calls that were left without a result, after an outage of more than a month."""
    await _close(runtime, webhooks.ORPHANED_FOR, first_id(EPOCH))


async def _close(runtime: Runtime, age: dt.timedelta, begin_id: str) -> None:
    async def close(tx: Tx) -> int:
        closed = await webhooks.close_abandoned_calls(tx, before=tx.now - age, begin_id=begin_id)
        await payer_data.mask_abandoned(tx, closed)
        return len(closed)

    await runtime.in_batches(close, at_once=webhooks.ORPHANS_AT_ONCE)
