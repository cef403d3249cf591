"""Who does not hear of something over a socket gets a push (specification, Events; contract 7).

Two steps, so that no death in between loses or doubles anything: planning turns what nobody acknowledged into one row for
each device, in one transaction; sending takes rows, for a while, and removes them when the provider has spoken.
"""

from core.base import ids, logs, metrics
from core.base.errors import Unavailable
from core.deliveries import store as deliveries
from core.logins import store as logins
from core.outside.push_sender import DeadToken, Later, Notification, Outcome, Refused
from core.pushes import store as pushes
from core.pushes.store import Push
from core.runtime import Runtime, away_is_unavailable
from core.sessions import store as sessions
from core.steps import logins as login_steps
from core.steps.pushes import Due, content_of, plan

PLAN_AT_ONCE = 200
log = logs.get("push")


async def plan_events(runtime: Runtime) -> int:
    """Plan a push for each device of whoever has not acknowledged an event in time; return how many events."""
    async with runtime.transaction() as tx:
        ack_s = runtime.settings.push_ack_seconds
        notices = await deliveries.take_unheard(tx, older_than_s=ack_s, limit=PLAN_AT_ONCE)
        due = []
        for notice in notices:
            content = content_of(runtime, tx, notice.event, notice.event_id, notice.session_id, notice.payload)
            if content is not None:
                due.append(Due(recipient_id=notice.recipient_id, content=content))
        await plan(tx, due)
    return len(notices)


async def plan_chats(runtime: Runtime) -> int:
    """Plan a push for each device of whoever has not taken a message in time; return how many parties."""
    settings = runtime.settings
    async with runtime.transaction() as tx:
        chats = await sessions.take_unheard(
            tx, real_seconds=settings.push_ack_seconds, scale=settings.sesi_time_scale, limit=PLAN_AT_ONCE
        )
        due = []
        for chat in chats:
            content = content_of(runtime, tx, "message", ids.new_id(), chat.session_id, "{}")
            assert content is not None
            due.append(Due(recipient_id=chat.user_id, content=content))
        await plan(tx, due)
    return len(chats)


async def claim_due(runtime: Runtime, *, limit: int) -> list[Push]:
    """Take pushes that are due and in nobody's hands. Raises Unavailable."""
    with away_is_unavailable():
        return await pushes.claim(runtime.db, limit=limit)


async def send(runtime: Runtime, push: Push) -> None:
    """Send a push that was taken; never raises: what could not be settled is due again when nobody holds it any more."""
    try:
        await _settle(runtime, push, await _send(runtime, push) if push.is_wanted else Refused())
    except Unavailable:
        log.warning("a push was sent, and may be sent again")
    except Exception:
        log.exception("a push could not be settled")


async def _send(runtime: Runtime, push: Push) -> Outcome:
    notification = Notification(
        token=push.push_token, data=push.content, urgent=push.urgent, expires_at=push.expires_real_at
    )
    try:
        outcome = await runtime.push_sender.send(notification, attempt=push.attempts)
    except Exception:  # one push that can't be sent must not keep the others from it, nor be tried for ever
        log.exception("a push could not be sent")
        outcome = Later(after_s=pushes.HOLD_S)
    metrics.PUSHES.labels(type(outcome).__name__).inc()
    return outcome


async def _settle(runtime: Runtime, push: Push, outcome: Outcome) -> None:
    async with runtime.transaction() as tx:
        if isinstance(outcome, Later):
            await pushes.again(tx, push.id, after_s=outcome.after_s)
            return
        await pushes.done(tx, push.id)
        if isinstance(outcome, DeadToken):
            for owner in await logins.drop_push_token(tx, push.push_token):
                await login_steps.refresh_push_token(tx, *owner)
