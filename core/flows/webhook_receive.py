"""The gateway calls (specification, Gateway webhook; contract 4).

Two transactions: the first keeps the call, before anything is judged; the second holds the effect together with the
log row's stamp. A row without a stamp had no effect, and the gateway, which got no answer, calls again.
"""

import asyncio
import datetime as dt
import json
from typing import Any

import attrs
import msgspec

from core.base import ids, logs
from core.base.actor import Actor
from core.base.clock import monotonic
from core.base.errors import NotFound, Unavailable
from core.base.plain_json import plain_text
from core.customers import store as customers
from core.operators import store as operators
from core.payments import rules, store
from core.payments.rules import Case
from core.runtime import Runtime
from core.steps import calls
from core.storage.database import Tx
from core.webhooks import store as webhooks
from core.webhooks.store import MAX_BODY, Received

log = logs.get("webhook")
# Real seconds. The reply is out in under 2 s (contract 4): the gateway never repeats a call that timed out, but it does
# repeat one that was answered 500. The effect has what recording has left over.
RECORD_S = 0.8
ANSWER_S = 1.6
LAST_STEP_S = 0.3


@attrs.frozen(kw_only=True)
class Incoming:
    """A call off the wire."""

    body: bytes
    headers: dict[str, str]
    source_ip: str


@attrs.frozen(kw_only=True)
class Answer:
    """What the gateway is told."""

    http_status: int
    processing_result: str


async def receive(runtime: Runtime, incoming: Incoming) -> Answer:
    """Record, judge, act, stamp; then answer once."""
    answer_by = monotonic() + ANSWER_S
    token = incoming.headers.get("x-callback-token")
    body = _parse(incoming.body)
    call = _received(runtime, incoming, body, token)
    recorded = await _record(runtime, call)
    return await _handle(runtime, call, body, answer_by, recorded=recorded)


async def replay(runtime: Runtime, actor: Actor, *, webhook_log_id: str) -> str:
    """Run a stored body through the same handler, as if it had come when it did; return the new row's id.

    Raises NotFound, NotReplayable (it came without a valid token), Unavailable.
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


async def bring_in(runtime: Runtime, line: bytes) -> Answer | None:
    """Take a line of the fallback file through the same handler; None when the log has that call, answered, already.

    A call that ended in an exception, be it in an import before this one, is taken up again: it had no effect.

    Raises ValueError for what is no such line, Unavailable when the database is away.
    """
    call = _from_line(line)
    async with runtime.transaction() as tx:
        if not await webhooks.record(tx, call) and not await webhooks.take_up(tx, call.id):
            return None
    return await _handle(runtime, call, _parse(call.raw_body), monotonic() + ANSWER_S, recorded=True)


def _from_line(line: bytes) -> Received:
    try:
        call = msgspec.json.decode(line, type=Received)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError("this is no line of a fallback file") from error
    if ids.parse_id(call.id) is None or call.received_at.tzinfo is None or call.replay_of is not None:
        raise ValueError("this line is no call off the wire")
    texts = ("external_id", "gateway_invoice_id", "status", "amount", "app_tag")
    return attrs.evolve(
        call,
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
    """Judge, act, stamp, by a moment of the monotonic clock. `came_at`: when the call first came, if that was before it
    was recorded here."""
    try:
        async with asyncio.timeout(answer_by - monotonic()), runtime.transaction() as tx:
            case, note = await _act(runtime, tx, call, body, came_at or call.received_at)
            if recorded:
                await webhooks.stamp(tx, call.id, http_status=case.http_status, result=case.result, error=note)
    except Exception as error:
        if not isinstance(error, Unavailable | TimeoutError):
            log.exception("a webhook call failed", webhook_log_id=call.id)
        return await _failed(runtime, call, recorded, error)
    log.info("webhook", webhook_log_id=call.id, result=case.result, http_status=case.http_status)
    return Answer(http_status=case.http_status, processing_result=case.result)


def _parse(raw: bytes) -> Any:
    """Return the body's JSON; None for what is none."""
    try:
        return json.loads(raw[: MAX_BODY + 1])
    except (ValueError, RecursionError):
        return None


def _received(runtime: Runtime, incoming: Incoming, body: Any, token: str | None) -> Received:
    fields = body if isinstance(body, dict) else {}
    metadata = fields.get("metadata")
    return Received(
        id=ids.new_id(),
        received_at=runtime.now(),
        source_ip=incoming.source_ip[:45],
        headers={
            name: plain_text(value, 1000) or ""
            for name, value in incoming.headers.items()
            if name not in ("x-callback-token", "authorization", "cookie")
        },
        token_valid=rules.same_token(token, runtime.settings.gateway_callback_token),
        external_id=plain_text(fields.get("external_id")),
        gateway_invoice_id=plain_text(fields.get("id")),
        status=plain_text(fields.get("status")),
        amount=plain_text(fields.get("amount")),
        app_tag=plain_text(metadata.get("app")) if isinstance(metadata, dict) else None,
        raw_body=incoming.body[:MAX_BODY],
        truncated=len(incoming.body) > MAX_BODY,
    )


async def _record(runtime: Runtime, call: Received) -> bool:
    """Keep the call in the log, or in the file when the database does not take it. Returns whether the log has it."""
    try:
        async with asyncio.timeout(RECORD_S), runtime.transaction() as tx:
            await webhooks.record(tx, call)
    except Exception as error:
        log.warning("the webhook log did not take a call", error=type(error).__name__)
        await runtime.webhook_sink.write(received_at=call.received_at, raw_body=call.raw_body, fields=call.fields())
        return False
    return True


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
        # No call can change anything about it any more, so there is no lock to wait for.
        return rules.judge(readable, calls.issued(first), received_at=came_at), None
    account = await customers.lock_account(tx, first.customer_id)
    payment = await store.lock(tx, first.id)
    assert payment is not None
    return await calls.settle(tx, payment, account, readable, received_at=came_at)


async def _failed(runtime: Runtime, call: Received, recorded: bool, error: Exception) -> Answer:
    """Stamp an exception, best effort: the sweep stamps what can't be stamped now."""
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
            log.warning("a webhook row waits for its stamp", error=type(second).__name__)
    return Answer(http_status=Case.ERROR.http_status, processing_result=Case.ERROR.result)


async def stamp_orphans(runtime: Runtime) -> dt.datetime | None:
    """Sweep: calls whose process died before it answered."""
    async with runtime.transaction() as tx:
        await webhooks.stamp_orphans(
            tx, before=tx.now - dt.timedelta(seconds=60 * max(1.0, runtime.settings.sesi_time_scale))
        )
    return None
