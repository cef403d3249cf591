"""Send a push for events whose recipient has no socket, or has not acknowledged them in time (docs/events.md).

There are two steps, so that a process that dies loses and doubles nothing. Planning turns unacknowledged events into
one row for each device, in one transaction. Sending claims rows for a limited time and deletes them once the provider
has answered.
"""

from collections.abc import Awaitable, Callable, Sequence

from core.accounts.logins import push_tokens
from core.base import ids
from core.base.errors import Unavailable
from core.bus.inbox import InboxKind
from core.deliveries import store as deliveries
from core.deliveries import trail
from core.deliveries.pushes import store as pushes
from core.deliveries.pushes.plan import DuePush, content_of, plan_within_budget
from core.deliveries.pushes.rules import Action, is_silent
from core.deliveries.pushes.store import Push
from core.deliveries.stages import TrailMark, TrailStage
from core.events.notices import Notice
from core.providers.push_sender import LABELS, DeadToken, Later, Notification, Outcome, PushRefused, Sent
from core.runtime.container import Runtime
from core.sessions import unacknowledged
from core.storage.transaction import Tx
from core.telemetry import logs, metrics

MESSAGE = "message"  # in the place of an event's name
PLAN_AT_ONCE = 1_000  # a large blast is planned in few transactions, each a few milliseconds of the event loop
LOOKED_AT = 5_000  # new events in one look for recipients without a socket
Unheard = Callable[[set[str]], Awaitable[set[str]]]  # of users, those who surely have no socket in any process
log = logs.get("push")


async def work(runtime: Runtime) -> deliveries.Work:
    """Look whether UnheardPlanner, `plan_events` or `claim_due` has something to do. Raises Unavailable."""
    return await deliveries.work(runtime.db, late_after_s=runtime.settings.push_ack_seconds)


async def plan_events(runtime: Runtime) -> int:
    """Plan a push for each device of the recipients of events that were not acknowledged in time.

    Returns the number of events. Raises Unavailable.
    """
    ack_s = runtime.settings.push_ack_seconds
    async with runtime.transaction() as tx:
        notices = await deliveries.claim_unacknowledged(tx, older_than_s=ack_s, limit=PLAN_AT_ONCE)
        await _plan(runtime, tx, notices)
    return len(notices)


class UnheardPlanner:
    """Plans pushes for new events of recipients who have no socket: nothing could acknowledge those.

    `unheard` says who surely has none. The others' events wait for `plan_events`. Each look goes on behind the last one
    and begins again at the end. So its cost is bounded, and recipients whose devices acknowledge nothing keep no event
    of another one from being seen.
    """

    def __init__(self, unheard: Unheard) -> None:
        self._unheard = unheard
        self._after = deliveries.FIRST

    async def plan(self, runtime: Runtime) -> int:
        """Plan a push for each device of these recipients among the next LOOKED_AT events. Return the number of events.

        Raises Unavailable.
        """
        window_s = runtime.settings.push_ack_seconds
        new = await deliveries.unpushed(runtime.db, within_s=window_s, after=self._after, limit=LOOKED_AT)
        away = await self._unheard({one.recipient_id for one in new}) if new else set()
        due = [one for one in new if one.recipient_id in away]
        last = due[PLAN_AT_ONCE - 1] if len(due) > PLAN_AT_ONCE else new[-1] if len(new) == LOOKED_AT else None
        self._after = deliveries.FIRST if last is None else last.place
        if not due:
            return 0
        async with runtime.transaction() as tx:
            notices = await deliveries.claim_events(tx, [one.event_id for one in due[:PLAN_AT_ONCE]])
            await _plan(runtime, tx, notices)
        return len(notices)


async def _plan(runtime: Runtime, tx: Tx, notices: Sequence[Notice]) -> None:
    """Plan a push for each device of the recipients of these events, which this transaction has claimed."""
    due = []
    for notice in notices:
        content = content_of(runtime, tx, notice.event, notice.event_id, notice.session_id, notice.payload)
        if content is not None:
            due.append(DuePush(recipient_id=notice.recipient_id, content=content, but_for=notice.unshown_on or ()))
    await plan_within_budget(runtime, tx, due)


async def plan_chats(runtime: Runtime) -> int:
    """Plan a push for each device of the parties who have not received a message in time.

    Returns the number of parties. Raises Unavailable.
    """
    age_s, scale = runtime.settings.push_ack_seconds, runtime.settings.sesi_time_scale
    if not await unacknowledged.is_any(runtime.db, now=runtime.now(), real_seconds=age_s, scale=scale):
        return 0
    async with runtime.transaction() as tx:
        chats = await unacknowledged.claim(tx, real_seconds=age_s, scale=scale, limit=PLAN_AT_ONCE)
        due = []
        for chat in chats:
            content = content_of(runtime, tx, MESSAGE, ids.new_id(), chat.session_id, "{}")
            assert content is not None
            due.append(DuePush(recipient_id=chat.user_id, content=content, but_for=chat.unshown_on))
        await plan_within_budget(runtime, tx, due)
    return len(chats)


async def claim_due(runtime: Runtime, *, limit: int) -> list[Push]:
    """Claim pushes that are due and not claimed by another process. Raises Unavailable."""
    return await pushes.claim(runtime.db, limit=limit)


async def send(runtime: Runtime, push: Push) -> Outcome:
    """Send a claimed push and return the result, which `settle` stores. Never raises."""
    if not push.is_wanted:
        return PushRefused()
    notification = Notification(
        token=push.push_token,
        data=push.content,
        urgent=push.urgent,
        is_silent=is_silent(push.content),
        expires_at=push.expires_real_at,
    )
    outcome: Outcome
    try:
        outcome = await runtime.push_sender.send(notification, attempt=push.attempts)
    except Exception:  # one failure must not stop the other pushes, nor be retried without a pause
        log.exception("sending a push failed")
        outcome = Later(after_s=pushes.HOLD_S)
    label = LABELS[type(outcome)]
    metrics.PUSHES.labels(label).inc()
    if push.content["action"] == Action.PRESENCE_CHECK:
        metrics.PRESENCE_CHECK_PUSHES.labels(label).inc()
    _show(runtime, push, outcome=label)
    return outcome


def _show(runtime: Runtime, push: Push, *, outcome: str) -> None:
    """Show an attempt to send a push, with the provider's answer, in the development inbox."""
    if runtime.inbox is not None:
        text = "" if is_silent(push.content) else f"{push.content['title']}: {push.content['body']}"
        data = {**push.content, "attempt": push.attempts, "outcome": outcome}
        runtime.inbox.add(InboxKind.PUSH, to=push.push_token, text=text, **data)


async def settle(runtime: Runtime, results: list[tuple[Push, Outcome]]) -> None:
    """Store the results of pushes: one statement for those that are done, a transaction for each of the others.

    Never raises: a push whose result can't be stored is due again when its claim ends.
    """
    done = [(push, outcome) for push, outcome in results if isinstance(outcome, Sent | PushRefused)]
    await _storing(_delete(runtime, done) if done else None)
    for push, outcome in results:
        if isinstance(outcome, Later):
            await _storing(_retry(runtime, push, outcome))
        elif isinstance(outcome, DeadToken):
            await _storing(_forget_token(runtime, push))


async def _storing(work: Awaitable[None] | None) -> None:
    try:
        if work is not None:
            await work
    except Unavailable:
        log.warning("the result of a push was not stored; it may be sent twice")
    except Exception:
        log.exception("storing the result of a push failed")


async def _delete(runtime: Runtime, done: Sequence[tuple[Push, Outcome]]) -> None:
    async with runtime.transaction() as tx:
        await pushes.done(tx, [push.id for push, _ in done])
        taken = [push for push, outcome in done if isinstance(outcome, Sent) and outcome.by_provider]
        await _note(tx, taken, TrailStage.PUSHED)
        await _note(tx, [push for push, outcome in done if isinstance(outcome, PushRefused)], TrailStage.GIVEN_UP)


async def _retry(runtime: Runtime, push: Push, outcome: Later) -> None:
    async with runtime.transaction() as tx:
        if not await pushes.again(tx, push.id, after_s=outcome.after_s):
            await _note(tx, [push], TrailStage.GIVEN_UP)


async def _forget_token(runtime: Runtime, push: Push) -> None:
    async with runtime.transaction() as tx:
        await pushes.done(tx, [push.id])
        await _note(tx, [push], TrailStage.GIVEN_UP)
        for owner in await push_tokens.drop(tx, push.push_token):
            await push_tokens.refresh_push_token(tx, *owner)


async def _note(tx: Tx, found: list[Push], stage: TrailStage) -> None:
    """Note the result of pushes in the delivery trail. Messages are no events and have none."""
    marks = [
        TrailMark(event_id=push.content["event_id"], auth_session_id=push.auth_session_id, stage=stage, at=tx.now)
        for push in found
        if push.content["event"] != MESSAGE
    ]
    if marks:
        tx.count(metrics.DELIVERY_TRAIL_ROWS.labels(stage), await trail.add(tx, marks))
