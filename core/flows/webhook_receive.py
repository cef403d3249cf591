"""Receive the gateway's webhook calls (docs/protocol.md#webhook, docs/invariants.md#i10).

A call with a valid token takes two transactions. The first stores the call before it is judged. The second has its
effect and stamps the log row with the result. So a row without a stamp had no effect. If the gateway does not repeat
that call, a poll finds the payment (core/flows/invoice_poll.py).

Anyone can send calls without a valid token. They have no effect and must not delay genuine ones, so they are handled
separately. UNPROVEN limits how many of them are stored in full for each address, with one statement each and on few
connections; the others are counted.
"""

import asyncio
import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

import attrs
import msgspec

from core.base import ids, logs
from core.base.actor import Actor
from core.base.addresses import who_has
from core.base.clock import monotonic
from core.base.errors import NotFound, Unavailable
from core.base.plain_json import plain_text
from core.bus.rate_limit import Limit, RateLimited, charges_of_address
from core.customers import store as customers
from core.operators import store as operators
from core.payments import rules, store
from core.payments.rules import Case
from core.runtime import Runtime
from core.steps import gateway_events
from core.storage.database import Tx
from core.webhooks import store as webhooks
from core.webhooks.store import MAX_BODY, Received

log = logs.get("webhook")
# Real seconds. The response must be sent within 2 s: the gateway never repeats a call that timed out, but it does
# repeat one that was answered with 500. The effect has the time that storing the call has left.
RECORD_S = 0.8
ANSWER_S = 1.6
LAST_STEP_S = 0.3
# How many calls without a valid token are stored in full for each address: enough to see what a misconfigured caller
# sends.
UNPROVEN = Limit(name="webhook_unproven", per_minute=60, burst=60)
# Lines for such calls in the fallback file, for all addresses together: at most 5 MiB a minute of disk space that
# genuine calls need.
UNPROVEN_LINES = Limit(name="webhook_unproven_lines", per_minute=60, burst=60)
TOKEN = "x-callback-token"  # noqa: S105 - the name of a header
HEADERS_KEPT = 40
HEADERS_SIZE = 8_192  # characters of all names and values


@attrs.frozen(kw_only=True)
class Incoming:
    """A webhook call as received."""

    body: bytes
    headers: dict[str, str]
    source_ip: str


@attrs.frozen(kw_only=True)
class Answer:
    """The response to the gateway."""

    http_status: int
    processing_result: str
    retry_after_seconds: int | None = None


def is_genuine(runtime: Runtime, headers: Mapping[str, str]) -> bool:
    """Return whether a call carries a valid callback token. `headers` must have lower-case names."""
    return rules.is_callback_token(headers.get(TOKEN), runtime.settings.gateway_callback_token)


async def receive(runtime: Runtime, incoming: Incoming) -> Answer:
    """Store a call, judge it, apply its effect and stamp its log row. Return the response."""
    answer_by = monotonic() + ANSWER_S
    if not is_genuine(runtime, incoming.headers):
        return await _refuse_unproven(runtime, incoming)
    body = _parse(incoming.body)
    call = _received(runtime, incoming, body, token_valid=True)
    recorded = await _record(runtime, call)
    return await _handle(runtime, call, body, answer_by, recorded=recorded)


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
    call = _received(runtime, incoming, _parse(incoming.body), token_valid=False)
    await asyncio.wait({runtime.tasks.follow(_keep_unproven(runtime, call))}, timeout=RECORD_S)
    log.info("webhook", webhook_log_id=call.id, result=Case.UNAUTHORIZED.result)
    return Answer(http_status=Case.UNAUTHORIZED.http_status, processing_result=Case.UNAUTHORIZED.result)


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
    return await _to_file(runtime, call)


async def replay(runtime: Runtime, actor: Actor, *, webhook_log_id: str) -> str:
    """Process a stored call again, as if it had arrived at its original time. Return the new log row's id.

    Raises NotFound, NotReplayable (the call had no valid token), Unavailable.
    """
    async with runtime.transaction() as tx:
        stored = await webhooks.get(tx, webhook_log_id)
        if stored is None:
            raise NotFound
        if not stored.token_valid:
            raise rules.NotReplayable
        first = await webhooks.get(tx, stored.replay_of) if stored.replay_of is not None else None
        came_at = (first or stored).received_at
        call = attrs.evolve(stored, id=ids.new_id(), received_at=tx.now, replay_of=stored.replay_of or stored.id)
        await webhooks.record(tx, call)
        await operators.audit(
            tx,
            operator_id=actor.user_id,
            action="webhook.replayed",
            object_type="webhook_log",
            object_id=webhook_log_id,
            before=None,
            after={"webhook_log_id": call.id},
        )
    answer_by = monotonic() + ANSWER_S
    await _handle(runtime, call, _parse(call.raw_body), answer_by, recorded=True, came_at=came_at)
    return call.id


async def import_call(runtime: Runtime, line: bytes, *, trust_unsealed: bool) -> Answer | None:
    """Process a line of the fallback file. Return None if the log has that call with a result already.

    A call that ended in an exception, even in an earlier import, is processed again, because it had no effect. A line
    without a valid seal counts as a call without a valid token, unless `trust_unsealed`: anyone who can write to the
    file could have made it.

    Raises ValueError if this is not a line of a fallback file, and Unavailable if the database does not answer.
    """
    call = _from_line(line)
    if not trust_unsealed and not runtime.webhook_sink.is_sealed(line):
        call = attrs.evolve(call, token_valid=False)
    async with runtime.transaction() as tx:
        if not await webhooks.record(tx, call) and not await webhooks.claim_call(tx, call.id):
            return None
    return await _handle(runtime, call, _parse(call.raw_body), monotonic() + ANSWER_S, recorded=True)


def _from_line(line: bytes) -> Received:
    try:
        call = msgspec.json.decode(line, type=Received)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError("this is not a line of a fallback file") from error
    if ids.parse_id(call.id) is None or call.received_at.tzinfo is None or call.replay_of is not None:
        raise ValueError("this line is not a call that the webhook received")
    texts = ("external_id", "gateway_invoice_id", "status", "amount", "app_tag")
    return attrs.evolve(
        call,
        source=webhooks.WEBHOOK,
        source_ip=plain_text(call.source_ip, 45) or "",
        headers={plain_text(name) or "": plain_text(value, 1000) or "" for name, value in call.headers.items()},
        **{name: plain_text(getattr(call, name)) for name in texts},
    )


async def _handle(
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
                await webhooks.stamp(tx, call.id, http_status=case.http_status, result=case.result, error=note)
    except Exception as error:
        if not isinstance(error, Unavailable | TimeoutError):
            log.exception("processing a webhook call failed", webhook_log_id=call.id)
        return await _failed(runtime, call, recorded, error)
    log.info("webhook", webhook_log_id=call.id, result=case.result, http_status=case.http_status)
    return Answer(http_status=case.http_status, processing_result=case.result)


def _parse(raw: bytes) -> Any:
    """Return the JSON of a body, None if it is not JSON."""
    try:
        return json.loads(raw[: MAX_BODY + 1])
    except (ValueError, RecursionError):
        return None


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
    fields = body if isinstance(body, dict) else {}
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
        await _to_file(runtime, call)
        return False
    return True


async def _to_file(runtime: Runtime, call: Received) -> bool:
    return await runtime.webhook_sink.write(received_at=call.received_at, raw_body=call.raw_body, fields=call.fields())


async def _act(runtime: Runtime, tx: Tx, call: Received, body: Any, came_at: dt.datetime) -> tuple[Case, str | None]:
    if not call.token_valid:
        return Case.UNAUTHORIZED, None
    if call.truncated:
        return Case.TOO_LARGE, "the body is over 64 KiB"
    readable = rules.read_call(body, app_tag=runtime.settings.gateway_app_tag)
    if isinstance(readable, Case):
        return readable, None
    first = await store.get(tx, readable.external_id)
    if first is None:
        return Case.UNKNOWN, None
    if first.confirmed_at is not None and first.gateway_invoice_id is not None:
        # No call can change this request any longer, so don't wait for its lock.
        return rules.judge(readable, gateway_events.issued(first), received_at=came_at), None
    account = await customers.lock_account(tx, first.customer_id)
    payment = await store.lock(tx, first.id)
    assert payment is not None
    return await gateway_events.apply(tx, payment, account, readable, received_at=came_at)


async def _failed(runtime: Runtime, call: Received, recorded: bool, error: Exception) -> Answer:
    """Stamp the log row with an exception. If that fails too, the sweep stamps it later."""
    if recorded:
        try:
            async with asyncio.timeout(LAST_STEP_S), runtime.transaction() as tx:
                await webhooks.stamp(
                    tx,
                    call.id,
                    http_status=Case.ERROR.http_status,
                    result=Case.ERROR.result,
                    error=type(error).__name__,
                )
        except Exception as second:
            log.warning("storing the result of a webhook call failed", error=type(second).__name__)
    return Answer(http_status=Case.ERROR.http_status, processing_result=Case.ERROR.result)


async def close_abandoned_calls(runtime: Runtime) -> dt.datetime | None:
    """Sweep: stamp calls whose process died before it answered."""
    age = dt.timedelta(seconds=60 * max(1.0, runtime.settings.sesi_time_scale))
    while True:
        async with runtime.transaction() as tx:
            stamped = await webhooks.close_abandoned_calls(tx, before=tx.now - age)
        if stamped < webhooks.ORPHANS_AT_ONCE:
            return None
