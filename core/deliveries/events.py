"""Make events for their recipients, and wake the jobs process for a deadline (docs/events.md).

Each recipient gets one delivery, written in the transaction of the change and sent after its commit. Who receives an
event, and with which fields, is decided in core/payments/announce.py, core/sessions/announce.py and
core/pairing/announce.py. Messages, read markers and typing are not events; their forms are in
core/events/notices.py.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import msgspec

from core.base import ids
from core.base.actor import UserType
from core.events.notices import Notice
from core.events.signals import DeadlineSet
from core.storage.transaction import Tx
from core.telemetry import traces


def notice(
    at: dt.datetime, recipient_id: str, recipient_type: UserType, session_id: str | None, frame: dict[str, Any]
) -> Notice:
    """Return an event for one recipient (see `notices`)."""
    return notices(at, [recipient_id], recipient_type, session_id, frame)[0]


def notices(
    at: dt.datetime,
    recipient_ids: Sequence[str],
    recipient_type: UserType,
    session_id: str | None,
    frame: dict[str, Any],
    parent: str | None = None,
) -> list[Notice]:
    """Return an event for each recipient, all with one frame, which is encoded once.

    `parent` is the traceparent of its spans; None: of the current span. `at` is the transaction's `event_time`. The
    caller must read it while the session is locked, so that event ids follow the order of changes.
    """
    payload, kind = msgspec.json.encode(frame).decode(), recipient_type.value
    parent = parent or traces.traceparent()
    return [
        Notice(
            event_id=ids.new_event_id(at),
            recipient_id=recipient_id,
            recipient_type=kind,
            event=frame["type"],
            session_id=session_id,
            payload=payload,
            traceparent=parent,
        )
        for recipient_id in recipient_ids
    ]


def deadline(tx: Tx, at: dt.datetime | None) -> None:
    """Wake the jobs process if `at` is sooner than the deadline that it is waiting for. None does nothing."""
    if at is not None:
        tx.emit(DeadlineSet(at=at))
