"""Routes for the log of the gateway's calls, and for their replay."""

from typing import Annotated

from litestar import get, post
from litestar.params import QueryParameter

from api.auth import operators
from api.parameters import path_id, query_time
from core.accounts.logins import callers
from core.accounts.operators.totp import TotpRequired
from core.base.actor import Actor
from core.base.errors import GatewayUnavailable
from core.base.pages import Items, read_page
from core.desk import webhook_calls
from core.desk.webhook_calls import WebhookFilter, WebhookLogView
from core.payments.rules import NotReplayable
from core.payments.webhooks import replay as webhook_replay
from core.runtime.container import Runtime


@get("/internal/webhook-logs", **operators("webhooks"))
async def webhook_logs(
    runtime: Runtime,
    actor: Actor,
    q: str | None = None,
    since: Annotated[str | None, QueryParameter(name="from")] = None,
    to: str | None = None,
    processing_result: str | None = None,
    bodies: bool = True,
    cursor: str | None = None,
    limit: int | None = None,
) -> Items[WebhookLogView]:
    """List the gateway's calls, newest first; with bodies at most 20 on a page, whatever `limit` says.

    Personal fields in bodies are masked without `customers.pii`. An audit row records which bodies were read; with
    `bodies=false` they are left out, without an audit row.
    """
    which = WebhookFilter(
        q=q,
        since=query_time("from", since),
        until=query_time("to", to),
        processing_result=processing_result,
        bodies=bodies,
    )
    return await webhook_calls.webhook_calls(runtime, actor, read_page(cursor, limit), which)


@get("/internal/webhook-logs/{log_id:str}", **operators("webhooks"))
async def webhook_log(log_id: str, runtime: Runtime, actor: Actor) -> WebhookLogView:
    """Return a call of the gateway.

    Personal fields in its body are masked without `customers.pii`. An audit row records that it was read.
    """
    return await webhook_calls.webhook_call(runtime, actor, path_id(log_id))


@post(
    "/internal/webhook-logs/{log_id:str}/replay",
    status_code=200,
    **operators("webhooks", "write", NotReplayable, GatewayUnavailable, TotpRequired),
)
async def replay(log_id: str, runtime: Runtime, actor: Actor) -> WebhookLogView:
    """Replay a stored call.

    It runs through the same handler again, as a new call; the answer is the new call's row. A call without a valid
    token has no direct effect: the gateway is asked about its invoice, and the answer's row has the source `poll`.
    That needs a fresh code of the second factor, if you have one.
    """
    stored = await webhook_replay.stored_call(runtime, path_id(log_id))
    if not stored.token_valid:
        await callers.require_step_up(runtime, actor)
    new_id = await webhook_replay.replay(runtime, actor, webhook_log_id=stored.id)
    return await webhook_calls.replayed_call(runtime, actor, new_id)


ROUTES = [webhook_logs, webhook_log, replay]
