"""Plans pushes: one row for each device of a recipient, in the caller's transaction."""

from collections.abc import Iterable
from typing import Any

import attrs
import msgspec

from core.events.notices import Notice
from core.logins import store as logins
from core.pushes import rules
from core.pushes import store as pushes
from core.pushes.rules import Content
from core.pushes.store import Planned
from core.runtime import Runtime
from core.storage.database import Tx


@attrs.frozen(kw_only=True)
class Due:
    """What is to be pushed to a user's devices."""

    recipient_id: str
    content: Content


def content_of(
    runtime: Runtime, tx: Tx, event: str, event_id: str, session_id: str | None, payload: str
) -> Content | None:
    """Return what to push for an event; None for one that is never pushed. `payload` is the frame as JSON text."""
    fields: dict[str, Any] = msgspec.json.decode(payload)
    return rules.content_of(
        event=event,
        event_id=event_id,
        session_id=session_id,
        payload=fields,
        now=tx.now,
        scale=runtime.settings.sesi_time_scale,
    )


async def plan(tx: Tx, due: Iterable[Due], *, farewell: bool = False) -> None:
    """Plan a push for each living device of each recipient; `farewell`: the device's auth session ends in this transaction."""
    due = list(due)
    devices = await logins.push_devices(tx, sorted({one.recipient_id for one in due})) if due else {}
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
            for device in devices.get(one.recipient_id, ())
        ],
    )


async def plan_farewell(runtime: Runtime, tx: Tx, notice: Notice) -> None:
    """Plan the push of an event that ends its recipient's auth sessions, before the transaction ends them."""
    content = content_of(runtime, tx, notice.event, notice.event_id, notice.session_id, notice.payload)
    assert content is not None
    await plan(tx, [Due(recipient_id=notice.recipient_id, content=content)], farewell=True)
