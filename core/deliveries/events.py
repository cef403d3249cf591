"""Declare events, announce them to their recipients, and wake the jobs process for a deadline (docs/events.md).

The `events.py` of each domain declares its events. Each recipient gets one delivery, written in the transaction of the
change and sent after its commit. Read markers and typing are not events; their forms are in core/events/notices.py.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import msgspec

from core.base import ids
from core.base.actor import UserType
from core.deliveries import store
from core.deliveries.pushes.rules import Words
from core.events.notices import Notice
from core.events.signals import DeadlineSet
from core.storage.transaction import Tx
from core.telemetry import traces

BOTH = (UserType.CUSTOMER, UserType.MITRA)
_pushes: dict[str, Words | str] = {}  # by type of event


class Event(msgspec.Struct, kw_only=True, tag_field="type"):
    """The base of all events, with the fields that are stored. The frame has an `event_id` and `server_time` besides.

    The docstring of an event is its description in the AsyncAPI document and in docs/events.md, so it addresses app
    developers. `app` is what an app does with it, besides acknowledging it. `push` is the text of its push, or why it
    has none. `order_key`, with the fields in braces filled in, names what an event is about: an app keeps the events
    of one order key in the order of their ids, and does not compare others. `example` has its fields. Without
    `is_always_stored`, some of its frames are not stored and have no `event_id`.
    """

    socket: ClassVar[Literal["chat", "pairing"]]
    sent_to: ClassVar[tuple[UserType, ...]]
    order_key: ClassVar[str]
    app: ClassVar[str]
    push: ClassVar[Words | str]
    example: ClassVar[Mapping[str, Any]]
    acknowledged_by: ClassVar[tuple[str, ...]] = ("ack",)
    is_always_stored: ClassVar[bool] = True

    @classmethod
    def type_name(cls) -> str:
        """Return the `type` of the event's frame."""
        return str(cls.__struct_config__.tag)


def declared() -> list[type[Event]]:
    """List the events of the modules that are imported: the subclasses of Event, or of a domain's base class."""
    return [event for base in Event.__subclasses__() for event in base.__subclasses__() or (base,)]


def words_of(event: str) -> Words | None:
    """Return the words of an event's push.

    None if it is never pushed, and for an event that only processes of another version know.
    """
    if event not in _pushes:
        _pushes.update((one.type_name(), one.push) for one in declared())
    push = _pushes.get(event)
    return push if isinstance(push, Words) else None


async def notices(
    tx: Tx, event: Event, to: Sequence[str], kind: UserType, *, session_id: str | None = None, parent: str | None = None
) -> list[Notice]:
    """Return an event for each recipient; it is encoded once.

    `parent` is the traceparent of its spans; None: of the current span. The caller must hold the lock of the session,
    so that event ids follow the order of changes.
    """
    assert kind in event.sent_to
    at, payload, parent = await tx.event_time(), msgspec.json.encode(event).decode(), parent or traces.traceparent()
    return [
        Notice(
            event_id=ids.new_event_id(at),
            recipient_id=recipient_id,
            recipient_type=kind.value,
            event=event.type_name(),
            session_id=session_id,
            payload=payload,
            traceparent=parent,
        )
        for recipient_id in to
    ]


async def announce(
    tx: Tx, event: Event, to: Sequence[str], *, session_id: str | None = None, parent: str | None = None
) -> list[Notice]:
    """Store an event for recipients of the one kind that gets it, and send it after the commit (see `notices`)."""
    if not to:
        return []
    (kind,) = event.sent_to
    made = await notices(tx, event, to, kind, session_id=session_id, parent=parent)
    await store.add(tx, made)
    return made


def deadline(tx: Tx, at: dt.datetime | None) -> None:
    """Wake the jobs process if `at` is sooner than the deadline that it is waiting for. None does nothing."""
    if at is not None:
        tx.emit(DeadlineSet(at=at))
