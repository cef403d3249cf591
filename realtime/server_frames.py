"""The frames that the service sends, and which of them a user gets on each path (docs/protocol.md#websockets).

First the base classes, the frames of both paths, those of `/ws/chat`, those of `/ws/pairing`, then the frames of events
and who gets them. Events are declared in core, in the `events.py` of their domains. The frames of the hub are built in
realtime/outgoing.py, answers by `Connection.answer`.

The docstrings of server frames are descriptions in the AsyncAPI document and in docs/events.md, so they address app
developers. Objects in frames are the views of `core`. The classes forbid unknown fields for the tests only, which check
every frame that they receive: clients must ignore fields that they do not know.
"""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType

from core.accounts.mitras.rules import MitraAtCapacity, MitraOffline
from core.base import field_messages
from core.base.actor import UserType
from core.base.errors import Forbidden, NotFound, Unavailable, ValidationFailed
from core.base.field_types import ClientMessageId, Count, Digest, Id, Party, Positive, Time, TimeScale
from core.deliveries.events import Event, declared
from core.pairing import events as pairing_events
from core.pairing.rules import RequestClosed, RequestTaken
from core.pairing.views import ChatRequest
from core.payments import events as payment_events
from core.sessions import events as session_events
from core.sessions.messages.chats import MessageView, OpenSession
from core.sessions.messages.rules import TooFast
from core.sessions.rules import SessionNotActive
from core.sessions.views import SessionView
from realtime.frames import INVALID_FRAME, UNKNOWN_TYPE, Ref

# The modules that declare events; `declared` finds those that are imported.
DECLARED_IN = (payment_events, session_events, pairing_events)

# The codes of `error` frames: those of frames that can't be read, and those of the errors that commands raise.
ERRORS = (
    Forbidden,
    NotFound,
    Unavailable,
    ValidationFailed,
    TooFast,
    MitraAtCapacity,
    MitraOffline,
    RequestClosed,
    RequestTaken,
    SessionNotActive,
)
CODES = frozenset({INVALID_FRAME, UNKNOWN_TYPE, *(error.code for error in ERRORS)})

# Identifies the database's history. If it changes, the latest commits may be lost (realtime/asyncapi.py).
Epoch = Annotated[str, msgspec.Meta(min_length=1)]

ErrorCode = Annotated[
    str,
    msgspec.Meta(
        pattern="^[A-Z][A-Z0-9_]*$",
        # Codes may be added, so the known ones are no closed enumeration.
        extra_json_schema={"anyOf": [{"type": "string", "enum": sorted(CODES)}, {"type": "string"}]},
    ),
]

ErrorDetails = Annotated[
    dict[str, Any], msgspec.Meta(extra_json_schema={"properties": {"fields": field_messages.SCHEMA}})
]


class User(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The user of this socket."""

    id: Id
    type: Party


class ServerFrame(msgspec.Struct, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """Base of all server frames.

    `server_time` is the service's time, so that apps count down correctly on any phone.
    """

    server_time: Time


class AnswerFrame(ServerFrame, kw_only=True):
    """An answer to a client frame. It echoes that frame's `ref`, if it had one."""

    ref: Ref | UnsetType = UNSET


class EventFrame(ServerFrame, kw_only=True):
    """An event. It is repeated after each `auth_ok` until one of the user's devices acknowledges it; only a `message`
    is not repeated, because `sync` returns it."""

    event: ClassVar[type[Event]]
    event_id: Id


class AuthOk(AnswerFrame, kw_only=True):
    """The token is valid.

    The socket was subscribed before the snapshot was taken, so no frame is missed between them. `time_scale` is how
    many seconds of service time pass in a real one: 1 in production.
    """

    user: User
    connection_id: Id
    epoch: Epoch
    ping_seconds: Positive
    time_scale: TimeScale


class AuthExpiring(ServerFrame, kw_only=True, tag="auth_expiring"):
    """The access token expires at `at`, in 60 s. Send `auth` with a new one, or the socket closes with 4401."""

    at: Time


class Pong(AnswerFrame, kw_only=True, tag="pong"):
    """The answer to `ping`."""


class Error(AnswerFrame, kw_only=True, tag="error"):
    """A frame was refused; the socket stays open.

    The codes are those of the REST interface, and two more: `INVALID_FRAME` and `UNKNOWN_TYPE`. After `TOO_FAST` wait
    `retry_after_seconds`, then send the frames again in the same order. Messages are in the language of the upgrade
    request. The `ref` is that of the frame, also if it is longer than a frame may have."""

    ref: str | UnsetType = UNSET
    code: ErrorCode
    message: str
    details: ErrorDetails | UnsetType = UNSET
    retry_after_seconds: Count | UnsetType = UNSET


class ChatAuthOk(AuthOk, kw_only=True, tag="auth_ok"):
    """The token is valid; `sessions` are your sessions in `active`, `expired` and `closing`.

    If a `last_seq` is higher than the one you have, `sync` that session. The socket was subscribed before this snapshot
    was taken, so no frame is missed between them."""

    sessions: list[OpenSession]


class MessageAck(AnswerFrame, kw_only=True, tag="message_ack"):
    """Your message is committed. A repeat of its `client_message_id` gets the same answer."""

    client_message_id: ClientMessageId
    id: Id
    seq: Positive
    created_at: Time


class MessageStatus(ServerFrame, kw_only=True, tag="message_status"):
    """Every message up to `up_to` was delivered or read. Sent to the other party. `read` is also sent to the reader's
    own other devices, so that they show the messages as read."""

    session_id: Id
    status: Literal["delivered", "read"]
    up_to: Count
    at: Time


class PartyTyping(ServerFrame, kw_only=True, tag="typing"):
    """The other party started or stopped typing. This frame may be lost, so show it for some seconds only."""

    session_id: Id
    is_typing: bool


class SyncPage(AnswerFrame, kw_only=True, tag="sync"):
    """The messages after a `seq`, ascending, at most 200. If `more` is true, `sync` again after the last one.

    `digest` is the chat's digest up to the last message of this frame, or up to `after` if there is none. It is null if
    the session is `blanked`, if `after` is above the last `seq`, and for a part of a long chat that was not hashed
    yet."""

    session_id: Id
    messages: list[MessageView]
    last_seq: Count
    more: bool
    epoch: Epoch
    digest: Digest | None
    blanked: bool


class SearchAuthOk(AuthOk, kw_only=True, tag="auth_ok"):
    """The customer's token is valid; `searching` is the running search, or null."""

    searching: SessionView | None


class DeskAuthOk(AuthOk, kw_only=True, tag="auth_ok"):
    """The mitra's token is valid; `requests` are the chat requests that the mitra may answer."""

    requests: list[ChatRequest]


class Accepted(AnswerFrame, kw_only=True, tag="accepted"):
    """The mitra was the first to accept and has the session."""

    session: SessionView


def _frame_of(event: type[Event]) -> type[EventFrame]:
    """Return the frame of an event: its fields, the event's id and the service's time."""
    fields = [
        (field.name, field.type) if field.required else (field.name, field.type, field.default)
        for field in msgspec.structs.fields(event)
    ]
    frame = msgspec.defstruct(
        event.__name__,
        fields if event.is_always_stored else [*fields, ("event_id", Id | UnsetType, UNSET)],
        bases=(EventFrame,),
        namespace={"event": event, "__doc__": event.__doc__},
        module=__name__,
        tag=event.type_name(),
        kw_only=True,
    )
    assert issubclass(frame, EventFrame)
    return frame


EVENT_FRAMES = [_frame_of(event) for event in declared()]


def _events(socket: str, kind: UserType) -> Iterator[type[ServerFrame]]:
    for frame in EVENT_FRAMES:
        if frame.event.socket == socket and kind in frame.event.sent_to:
            yield frame


_BOTH = (AuthExpiring, Pong, Error)
_CHAT = (ChatAuthOk, MessageAck, MessageStatus, PartyTyping, SyncPage)
_OTHERS: dict[tuple[str, UserType], tuple[type[ServerFrame], ...]] = {
    ("chat", UserType.CUSTOMER): _CHAT,
    ("chat", UserType.MITRA): _CHAT,
    ("pairing", UserType.CUSTOMER): (SearchAuthOk,),
    ("pairing", UserType.MITRA): (DeskAuthOk, Accepted),
}
FRAMES = {(socket, kind): (*others, *_BOTH, *_events(socket, kind)) for (socket, kind), others in _OTHERS.items()}
