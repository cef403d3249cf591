"""The frames that the service sends, and which of them a user gets on each path (docs/protocol.md#websockets).

First the base classes, the frames of both paths, those of `/ws/chat`, those of `/ws/pairing`, then who gets them. The
frames of the hub are built in realtime/outgoing.py, answers by `Connection.answer`.

The docstrings of server frames are descriptions in the AsyncAPI document and in docs/events.md, so they address app
developers. Objects in frames are the views of `core`. The classes forbid unknown fields for the tests only, which check
every frame that they receive: clients must ignore fields that they do not know.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from core.accounts.mitras.rules import MitraAtCapacity, MitraOffline, StatusReason
from core.base import field_messages
from core.base.actor import UserType
from core.base.errors import Forbidden, NotFound, Unavailable, ValidationFailed
from core.base.field_types import ClientMessageId, Count, Digest, Id, Party, Person, Positive, Time
from core.pairing.rules import RequestClosed, RequestTaken
from core.pairing.views import ChatRequest
from core.payments.failures.causes import CauseTag
from core.payments.views import PaymentRequestView
from core.sessions.extensions.views import ExtensionView
from core.sessions.messages.chats import MessageView, OpenSession
from core.sessions.messages.rules import TooFast
from core.sessions.rules import CreditReason, SessionNotActive
from core.sessions.sensitivity import Sensitivity
from core.sessions.views import SessionView
from realtime.frames import INVALID_FRAME, UNKNOWN_TYPE, Ref

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


class Event(ServerFrame, kw_only=True):
    """A stored event. It is repeated after each `auth_ok` until one of the user's devices acknowledges it; only a
    `message` is not repeated, because `sync` returns it."""

    event_id: Id


class AuthOk(AnswerFrame, kw_only=True):
    """The token is valid.

    The socket was subscribed before the snapshot was taken, so no frame is missed between them.
    """

    user: User
    connection_id: Id
    epoch: Epoch
    ping_seconds: Positive


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


class NewMessage(Event, kw_only=True, tag="message"):
    """A new message in a session. Sent to every connection of both parties except the one that sent it, in the order of
    `seq`. Acknowledge it by `delivered` or `read`, not by `ack`. If one is lost, `sync` returns it."""

    message: MessageView


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
    the session is `blanked`, if `after` is above the last `seq`, and for a part of a long chat that was not hashed yet."""

    session_id: Id
    messages: list[MessageView]
    last_seq: Count
    more: bool
    epoch: Epoch
    digest: Digest | None
    blanked: bool


class SessionWarning(Event, kw_only=True, tag="session_warning"):
    """Three minutes of the paid time are left. Sent once for each `expires_at`, to both parties."""

    session_id: Id
    seconds_left: Literal[180]
    expires_at: Time


class SessionStarted(Event, kw_only=True, tag="session_started"):
    """A mitra has accepted, and the paid time has started. Sent to both parties."""

    session: SessionView


class SessionExpired(Event, kw_only=True, tag="session_expired"):
    """The paid time is over.

    No more messages can be sent; an extension or a goodbye is possible. Sent to both parties.
    """

    session: SessionView


class SessionResumed(Event, kw_only=True, tag="session_resumed"):
    """An extension was approved, and the session continues until its new `expires_at`. Sent to both parties."""

    session: SessionView
    extension_id: Id


class SessionClockAdjusted(Event, kw_only=True, tag="session_clock_adjusted"):
    """The session got paid time back: `session.expires_at` is later by `added_seconds`. Sent to both parties.

    The time was lost in an outage of the `database` or `realtime` processes, or because the mitra was away. An expired
    session may be active again.
    """

    session: SessionView
    added_seconds: int
    reason: CreditReason


class SessionClosing(Event, kw_only=True, tag="session_closing"):
    """A party or an operator has ended the session, and both parties may write a goodbye. Sent to both parties."""

    session: SessionView


class SessionCompleted(Event, kw_only=True, tag="session_completed"):
    """The session is completed: both goodbyes were written, or the grace period is over. Sent to both parties."""

    session: SessionView


class SessionTopicUpdated(Event, kw_only=True, tag="session_topic_updated"):
    """The mitra has changed the sensitivity of the topic. Sent to both parties."""

    session_id: Id
    topic_sensitivity: Sensitivity


class PeerRenamed(Event, kw_only=True, tag="peer_renamed"):
    """The other party has another name now, in an open session. Sent when a party's name changes."""

    session_id: Id
    display_name: str


class PeerAbsent(Event, kw_only=True, tag="peer_absent"):
    """The other party, `user_type`, has given no sign of life on any device since `since`, for longer than the
    configuration row `peer_absent_seconds`. Sent to the party who is left."""

    session_id: Id
    user_type: Party
    since: Time


class PeerReturned(Event, kw_only=True, tag="peer_returned"):
    """The other party, `user_type`, is back. Sent to the party who got `peer_absent`."""

    session_id: Id
    user_type: Party


class ExtensionRequested(Event, kw_only=True, tag="extension_requested"):
    """The customer has paid for more minutes. Sent to the mitra, who answers it over REST by `answer_by`."""

    extension: ExtensionView


class ExtensionResolved(Event, kw_only=True, tag="extension_resolved"):
    """An extension was approved or rejected, or the safeguard tripped. Sent to both parties."""

    extension: ExtensionView


class SearchAuthOk(AuthOk, kw_only=True, tag="auth_ok"):
    """The customer's token is valid; `searching` is the running search, or null."""

    searching: SessionView | None


class DeskAuthOk(AuthOk, kw_only=True, tag="auth_ok"):
    """The mitra's token is valid; `requests` are the chat requests that the mitra may answer."""

    requests: list[ChatRequest]


class PairingStatus(Event, kw_only=True, tag="pairing_status"):
    """The status of the customer's search. `asked`, the number of mitras asked so far, is present with `searching`;
    `cause_tag` with `failed` and `cancelled`; `mitra` with `paired`. `session_id` is null if the request ended before
    it had a session. When more mitras are asked, `searching` is sent again, at most every 2 s. These repeats have no
    `event_id`, need no acknowledgement and may be lost: keep the larger number."""

    event_id: Id | UnsetType = UNSET  # type: ignore[assignment] - missing from repeats
    payment_request_id: Id
    session_id: Id | None
    status: Literal["searching", "paired", "failed", "cancelled"]
    topic_sensitivity: Sensitivity
    asked: Count | UnsetType = UNSET
    cause_tag: CauseTag | UnsetType = UNSET
    mitra: Person | UnsetType = UNSET


# The field that PairingStatus has with each status; the others are missing.
FIELD_OF_STATUS = {"searching": "asked", "paired": "mitra", "failed": "cause_tag", "cancelled": "cause_tag"}


class PaymentUpdated(Event, kw_only=True, tag="payment_updated"):
    """A payment request of the customer has changed in a way that no other event reports: an extension was paid, a
    request expired or was abandoned on another device, money came too late or led to no chat, or an operator acted. The
    ids of one request's events increase in the order of its changes."""

    payment_request: PaymentRequestView


class ChatRequestMade(Event, kw_only=True, tag="chat_request"):
    """A customer is looking for a mitra. Sent to each mitra who is asked, and again with a later `answer_by` in a new
    round."""

    request: ChatRequest


class ChatRequestClosed(Event, kw_only=True, tag="chat_request_closed"):
    """This mitra can no longer answer a chat request. `taken`: another mitra accepted it. `timeout`: the mitra is not
    asked again. `accepted` and `rejected`: the mitra has answered on another device."""

    session_id: Id
    topic_sensitivity: Sensitivity
    reason: Literal["taken", "cancelled", "timeout", "accepted", "rejected"]


class MitraStatusChanged(Event, kw_only=True, tag="mitra_status_changed"):
    """The mitra went online or offline. `self`: on one of the mitra's devices; this one is not stored and has no
    `event_id`. All others are stored until acknowledged or replaced by a newer one. `stale`: there was no heartbeat for
    too long. `deactivated`: the sockets close with 4403."""

    event_id: Id | UnsetType = UNSET  # type: ignore[assignment] - missing with `self`
    is_online: bool
    reason: StatusReason


class Accepted(AnswerFrame, kw_only=True, tag="accepted"):
    """The mitra was the first to accept and has the session."""

    session: SessionView


_BOTH = (AuthExpiring, Pong, Error)
_CHAT = (
    ChatAuthOk,
    MessageAck,
    NewMessage,
    MessageStatus,
    PartyTyping,
    SyncPage,
    SessionWarning,
    SessionStarted,
    SessionExpired,
    SessionResumed,
    SessionClockAdjusted,
    SessionClosing,
    SessionCompleted,
    SessionTopicUpdated,
    ExtensionResolved,
    PeerRenamed,
    PeerAbsent,
    PeerReturned,
    *_BOTH,
)
FRAMES: dict[tuple[str, UserType], tuple[type[ServerFrame], ...]] = {
    ("chat", UserType.CUSTOMER): _CHAT,
    ("chat", UserType.MITRA): (*_CHAT, ExtensionRequested),
    ("pairing", UserType.CUSTOMER): (
        SearchAuthOk,
        PairingStatus,
        PaymentUpdated,
        *_BOTH,
    ),
    ("pairing", UserType.MITRA): (
        DeskAuthOk,
        ChatRequestMade,
        ChatRequestClosed,
        MitraStatusChanged,
        Accepted,
        *_BOTH,
    ),
}
