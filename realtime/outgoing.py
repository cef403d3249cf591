"""The frames that the hub sends: messages, events and changes that are not stored.

Those of the hot path are formatted by hand, because most frames are of their kinds. realtime/server_frames.py declares
them, and the tests check every frame that they receive against its declaration.
"""

import datetime as dt
import functools
from typing import Any

import msgspec

from core.accounts.mitras.rules import StatusReason
from core.base.actor import UserType
from core.base.clock import as_text
from core.events.notices import Notice, OwnStatusChanged, ReadMarkerMoved, SearchProgress, StoredMessage, TypingChanged
from core.sessions.messages.chats import MessageView
from core.sessions.messages.rules import Draft, StoreResult

encode = msgspec.json.encode
_moment = functools.lru_cache(maxsize=64)(as_text)  # all messages of a batch have the same time


def message(stored: StoredMessage) -> bytes:
    """Return the `message` frame of a message that was just committed; only its content needs escaping."""
    at = _moment(stored.created_at)
    # Formatting an enum costs more than this choice.
    sender = '"mitra"' if stored.sender_type is UserType.MITRA else '"customer"'
    return (
        f'{{"type":"message","event_id":"{stored.id}","server_time":"{at}","message":{{"id":"{stored.id}",'
        f'"session_id":"{stored.session_id}","seq":{stored.seq},"sender_type":{sender},'
        f'"sender_id":"{stored.sender_id}","client_message_id":"{stored.client_message_id}","type":"{stored.type}",'
        f'"content":{encode(stored.content).decode()},"metadata":{stored.metadata or "null"},"status":"sent",'
        f'"created_at":"{at}","delivered_at":null,"read_at":null,"blanked":false}}}}'
    ).encode()


def message_read_back(view: MessageView, *, server_time: str) -> bytes:
    """Return the `message` frame of a message that was read from the database."""
    return encode({"type": "message", "event_id": view.id, "server_time": server_time, "message": view})


def message_ack(draft: Draft, result: StoreResult, *, ref: str | None, now: dt.datetime) -> bytes:
    """Return the `message_ack` frame. Only the client's `ref` needs escaping."""
    echoed = "" if ref is None else f',"ref":{encode(ref).decode()}'
    at = _moment(result.created_at)
    server_time = as_text(now) if result.repeated else at
    return (
        f'{{"type":"message_ack","client_message_id":"{draft.client_message_id}","id":"{result.id}","seq":{result.seq},'
        f'"created_at":"{at}","server_time":"{server_time}"{echoed}}}'
    ).encode()


def message_status(moved: ReadMarkerMoved) -> bytes:
    """Return the `message_status` frame."""
    at = _moment(moved.at)
    return (
        f'{{"type":"message_status","session_id":"{moved.session_id}","status":"{moved.status}","up_to":{moved.up_to},'
        f'"at":"{at}","server_time":"{at}"}}'
    ).encode()


def typing(changed: TypingChanged, *, server_time: str) -> bytes:
    """Return the `typing` frame."""
    return _frame("typing", server_time, session_id=changed.session_id, is_typing=changed.is_typing)


def pairing_status(progress: SearchProgress, *, server_time: str) -> bytes:
    """Return the `pairing_status` frame with the present number of asked mitras. It has no `event_id`."""
    return _frame(
        "pairing_status",
        server_time,
        payment_request_id=progress.payment_request_id,
        session_id=progress.session_id,
        status="searching",
        topic_sensitivity=progress.topic_sensitivity,
        asked=progress.asked,
    )


def mitra_status_changed(changed: OwnStatusChanged, *, server_time: str) -> bytes:
    """Return the `mitra_status_changed` frame of a mitra's own change. It has no `event_id`."""
    return _frame("mitra_status_changed", server_time, is_online=changed.is_online, reason=StatusReason.SELF)


def event(notice: Notice, *, server_time: str) -> bytes:
    """Return the frame of a stored event."""
    tail = f',"event_id":"{notice.event_id}","server_time":"{server_time}"}}'
    return (notice.payload[:-1] + tail).encode()


def _frame(kind: str, server_time: str, **fields: Any) -> bytes:
    return encode({"type": kind, **fields, "server_time": server_time})
