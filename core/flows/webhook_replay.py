"""Process a stored webhook call again, and import calls from the fallback file (docs/protocol.md#webhook)."""

import attrs
import msgspec

from core.base import ids
from core.base.actor import Actor
from core.base.clock import monotonic
from core.base.errors import NotFound
from core.base.id_ranges import since, until
from core.base.plain_json import plain_text
from core.operators import store as operators
from core.payments.rules import NotReplayable
from core.runtime import Runtime
from core.steps import webhook_calls
from core.steps.retention import end_of
from core.steps.webhook_calls import ANSWER_S, Answer
from core.webhooks import store as webhooks
from core.webhooks.store import Received


async def replay(runtime: Runtime, actor: Actor, *, webhook_log_id: str) -> str:
    """Process a stored call again, as if it had arrived at its original time. Return the new log row's id.

    Raises NotFound, NotReplayable (the call had no valid token), Unavailable.
    """
    async with runtime.transaction() as tx:
        stored = await webhooks.get(tx, webhook_log_id)
        if stored is None:
            raise NotFound
        if not stored.token_valid:
            raise NotReplayable
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
    await webhook_calls.process(
        runtime, call, webhook_calls.parse(call.raw_body), answer_by, recorded=True, came_at=came_at
    )
    return call.id


async def import_call(runtime: Runtime, line: bytes, *, trust_unsealed: bool) -> Answer | None:
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
    return await webhook_calls.process(
        runtime, call, webhook_calls.parse(call.raw_body), monotonic() + ANSWER_S, recorded=True
    )


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
