"""Process a stored webhook call again, and import calls from the fallback file (docs/protocol.md#webhook)."""

import attrs
import msgspec

from core.accounts.operators import store as operators
from core.base import ids
from core.base.actor import Actor
from core.base.clock import monotonic
from core.base.errors import NotFound
from core.base.id_ranges import since, until
from core.base.plain_json import plain_text
from core.payments import gateway_calls, gateway_events, payer_data
from core.payments.gateway_calls import CallCase, UnreadableCall
from core.payments.rules import NotReplayable
from core.payments.webhooks import store as webhooks
from core.payments.webhooks.process import ANSWER_S, ReplyToGateway, WebhookCall, parse, process
from core.payments.webhooks.store import Received
from core.providers.gateway import Invoice
from core.runtime.container import Runtime
from core.runtime.retention import end_of
from core.storage.transaction import Tx


async def replay(runtime: Runtime, actor: Actor, *, webhook_log_id: str) -> str:
    """Process a stored call again, as if it had arrived at its original time. Return the new log row's id.

    A call without a valid token changes nothing: the gateway is asked about its invoice, and only the answer counts.
    Raises NotFound, NotReplayable (the gateway can't be asked about such a call), GatewayUnavailable, Unavailable.
    """
    stored = await stored_call(runtime, webhook_log_id)
    if not stored.token_valid:
        return await _ask_gateway(runtime, actor, stored)
    async with runtime.transaction() as tx:
        first = await webhooks.get(tx, stored.replay_of) if stored.replay_of is not None else None
        came_at = first.received_at if first is not None and first.token_valid else stored.received_at
        call = attrs.evolve(stored, id=ids.new_id(), received_at=tx.now, replay_of=stored.replay_of or stored.id)
        await webhooks.record(tx, call)
        await _audit(tx, actor, stored, call)
    answer_by = monotonic() + ANSWER_S
    content = parse(runtime, call.raw_body).content
    handled = WebhookCall(received=call, content=content, is_logged=True, came_at=came_at)
    await process(runtime, handled, answer_by)
    return call.id


async def stored_call(runtime: Runtime, webhook_log_id: str) -> Received:
    """Return a call as it was received. Raises NotFound, Unavailable."""
    async with runtime.transaction() as tx:
        stored = await webhooks.get(tx, webhook_log_id)
    if stored is None:
        raise NotFound
    return stored


async def _ask_gateway(runtime: Runtime, actor: Actor, stored: Received) -> str:
    """Ask the gateway about the invoice that a call without a valid token names, and apply the answer.

    The answer is logged as a replay, as it is for a poll. Return the new log row's id.
    """
    if runtime.gateway is None or stored.gateway_invoice_id is None or gateway_calls.is_refund_event(stored.status):
        raise NotReplayable
    invoice = await runtime.gateway.get(stored.gateway_invoice_id)
    async with runtime.transaction() as tx:
        case = await _apply(runtime, tx, invoice)
        call = await payer_data.row_of_answer(
            tx,
            None if invoice is None else invoice.body,
            log_id=ids.new_id(),
            external_id=None if invoice is None else plain_text(invoice.body.get("external_id")),
            invoice_id=stored.gateway_invoice_id,
            replay_of=stored.replay_of or stored.id,
        )
        await webhooks.record(tx, call)
        await webhooks.stamp(tx, call.id, http_status=case.http_status, result=case.result, error=None)
        await _audit(tx, actor, stored, call)
    return call.id


async def _apply(runtime: Runtime, tx: Tx, invoice: Invoice | None) -> CallCase:
    if invoice is None:
        return CallCase.UNKNOWN
    call = gateway_calls.read_invoice_call(invoice.body, app_tag=runtime.settings.gateway_app_tag)
    # Of another system, which has its own eyes on that money.
    if isinstance(call, UnreadableCall) and call.case in (CallCase.NON_UUID, CallCase.FOREIGN_APP):
        return call.case
    return await gateway_events.apply_found(tx, invoice, call)


async def _audit(tx: Tx, actor: Actor, stored: Received, call: Received) -> None:
    await operators.audit(
        tx, actor.user_id, "webhook.replayed", "webhook_log", stored.id, after={"webhook_log_id": call.id}
    )


async def import_call(runtime: Runtime, line: bytes, *, trust_unsealed: bool) -> ReplyToGateway | None:
    """Process a line of the fallback file. Return None if the log has that call with a result already.

    A call that ended in an exception, even in an earlier import, is processed again, because it had no effect. A line
    without a valid seal counts as a call without a valid token, unless `trust_unsealed`: anyone who can write to the
    file could have made it.

    Raises ValueError if this is not a line of a fallback file or is past its retention, and Unavailable if the database
    does not answer.
    """
    call = _from_line(line, runtime.clock.scale)
    before = await end_of(runtime, "retention_webhook_days")
    if before is not None and call.received_at < before:
        raise ValueError("this call is older than calls are kept (retention_webhook_days)")
    if not trust_unsealed and not runtime.webhook_sink.is_sealed(line):
        call = attrs.evolve(call, token_valid=False)
    async with runtime.transaction() as tx:
        if not await webhooks.record(tx, call) and not await webhooks.claim_call(tx, call.id):
            return None
    content = parse(runtime, call.raw_body).content
    handled = WebhookCall(received=call, content=content, is_logged=True)
    return await process(runtime, handled, monotonic() + ANSWER_S)


def _from_line(line: bytes, scale: float) -> Received:
    try:
        call = msgspec.json.decode(line, type=Received)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError("this is not a line of a fallback file") from error
    if ids.parse_id(call.id) is None or call.received_at.tzinfo is None or call.replay_of is not None:
        raise ValueError("this line is not a call that the webhook received")
    begin_id, end_id = since(call.received_at, scale=scale), until(call.received_at, scale=scale)
    if not begin_id <= call.id.lower() < end_id:  # a month without partition, perhaps
        raise ValueError("this line is not a call that the webhook received")
    texts = ("external_id", "gateway_invoice_id", "status", "amount", "app_tag")
    return attrs.evolve(
        call,
        source=webhooks.WEBHOOK,
        source_ip=plain_text(call.source_ip, 45) or "",
        headers={plain_text(name) or "": plain_text(value, 1000) or "" for name, value in call.headers.items()},
        **{name: plain_text(getattr(call, name)) for name in texts},
    )
