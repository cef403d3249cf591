"""Plan pushes in the caller's transaction: one row for each device of a recipient."""

import datetime as dt
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import msgspec

from core.accounts.logins import push_tokens
from core.accounts.logins.push_tokens import PushDevice
from core.deliveries.events import words_of
from core.deliveries.pushes import rules
from core.deliveries.pushes import store as pushes
from core.deliveries.pushes.rules import Content
from core.deliveries.pushes.store import Planned
from core.events.notices import Notice
from core.runtime.container import Runtime
from core.storage.transaction import Tx
from core.telemetry import metrics

MOST = 60  # pushes for all devices of a recipient, in a minute of service time
FOR_URGENT = 20  # of these are kept for urgent ones
MINUTE = dt.timedelta(minutes=1)


class PushBudget:
    """Count the pushes that this process has planned for each recipient in the last minute (docs/security.md#limits).

    A restart or a second process may let some more through, and no push costs a call to a counter.
    """

    def __init__(self) -> None:
        self._planned: dict[str, deque[dt.datetime]] = {}
        self._swept_at: dt.datetime | None = None

    def take(self, recipient_id: str, wanted: int, *, urgent: bool, now: dt.datetime) -> int:
        """Return how many of `wanted` pushes a recipient may get now, and count them."""
        self._sweep(now)
        planned = self._planned.setdefault(recipient_id, deque())
        while planned and planned[0] <= now - MINUTE:
            planned.popleft()
        granted = max(0, min(wanted, (MOST if urgent else MOST - FOR_URGENT) - len(planned)))
        planned.extend([now] * granted)
        return granted

    def _sweep(self, now: dt.datetime) -> None:
        """Once a minute, forget the recipients of older pushes."""
        if self._swept_at is not None and now < self._swept_at + MINUTE:
            return
        self._swept_at = now
        self._planned = {
            who: planned for who, planned in self._planned.items() if planned and planned[-1] > now - MINUTE
        }


@attrs.frozen(kw_only=True)
class DuePush:
    """A push for the devices of one user, but for those (auth session ids) that have what it is about."""

    recipient_id: str
    content: Content
    but_for: Sequence[str] = ()


def content_of(
    runtime: Runtime, tx: Tx, event: str, event_id: str, session_id: str | None, payload: str
) -> Content | None:
    """Return the content of an event's push, None if the event is not pushed. `payload` is the event as JSON text."""
    words = words_of(event)
    if words is None:
        return None
    fields: dict[str, Any] = msgspec.json.decode(payload)
    return rules.content_of(
        words,
        event=event,
        event_id=event_id,
        session_id=session_id,
        payload=fields,
        now=tx.now,
        scale=runtime.settings.sesi_time_scale,
    )


def _budget(_runtime: Runtime) -> PushBudget:
    return PushBudget()


async def plan_within_budget(runtime: Runtime, tx: Tx, due: Iterable[DuePush]) -> None:
    """Plan pushes as `plan` does, within the recipients' budgets in this process."""
    await plan(tx, due, budget=runtime.part(_budget))


async def plan(tx: Tx, due: Iterable[DuePush], *, budget: PushBudget | None = None, farewell: bool = False) -> None:
    """Plan a push for each signed-in device of each recipient, urgent ones first.

    Pushes beyond the recipient's `budget` are dropped, those for the devices with the oldest tokens first: the events
    stay for the app to read. `farewell` says that this transaction revokes the device's auth session.
    """
    due = sorted(due, key=lambda one: not one.content.urgent)
    devices = await push_tokens.devices(tx, sorted({one.recipient_id for one in due})) if due else {}
    await pushes.add(
        tx,
        [
            Planned(
                auth_session_id=device.auth_session_id,
                push_token=device.push_token,
                content=one.content.said_in(device.language),
                urgent=one.content.urgent,
                ttl=one.content.ttl,
                is_farewell=farewell,
            )
            for one in due
            for device in _within(tx, budget, one, devices.get(one.recipient_id, []))
        ],
    )


def _within(tx: Tx, budget: PushBudget | None, due: DuePush, devices: list[PushDevice]) -> list[PushDevice]:
    """Return the devices without what the push is about for which the recipient's budget has room.

    If all have it, all count: the user has seen it on none, and there is one push for it.
    """
    devices = [device for device in devices if device.auth_session_id not in due.but_for] or devices
    if budget is None or not devices:
        return devices
    room = budget.take(due.recipient_id, len(devices), urgent=due.content.urgent, now=tx.now)
    if room < len(devices):
        tx.count(metrics.LIMITED.labels("pushes_recipient"), len(devices) - room)
    return devices[:room]


async def plan_farewell(runtime: Runtime, tx: Tx, notice: Notice) -> None:
    """Plan the push of an event whose transaction revokes the recipient's auth sessions.

    Call this before they are revoked.
    """
    content = content_of(runtime, tx, notice.event, notice.event_id, notice.session_id, notice.payload)
    assert content is not None
    await plan(tx, [DuePush(recipient_id=notice.recipient_id, content=content)], farewell=True)
