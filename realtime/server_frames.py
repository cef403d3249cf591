"""Declarations of every frame that the service sends (docs/protocol.md#websockets).

The docstrings are descriptions in the AsyncAPI document and in docs/events.md, so they address app developers. The hot
path formats its frames by hand; the tests check every frame that they receive against these classes. They forbid
unknown fields for that reason only: clients must ignore fields that they do not know. Objects are the views of `core`
with more precise types.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import attrs
import msgspec
from msgspec import UNSET, UnsetType

from core.base.actor import UserType
from core.mitras.rules import StatusReason
from core.pairing_failures.causes import CauseTag
from core.payments.views import Failure, PaymentView
from core.reads.chats import MessageView
from core.sessions.chat_requests import ChatRequest
from core.sessions.rules import Closure
from core.sessions.views import Person, SearchView, SessionView
from realtime.frames import Ref, Uuid

ID_PATTERN = "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$"
Id = Annotated[str, msgspec.Meta(pattern=ID_PATTERN, extra_json_schema={"format": "uuid"})]
Time = Annotated[dt.datetime, msgspec.Meta(tz=True)]
# Identifies the database's history. If it changes, the latest commits may be lost (DESCRIPTION in
# realtime/asyncapi.py).
Epoch = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Mode = Literal["chat", "call"]
Sensitivity = Literal["regular", "sensitive"]


# -- objects


class User(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The user of this socket."""

    id: Id
    type: Literal["customer", "mitra"]


class Extension(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """More minutes for a session, already paid. If the mitra has not answered by `answer_by`, the service does."""

    id: Id
    session_id: Id
    requested_duration_minutes: Positive
    requested_price: Count
    status: Literal["pending", "approved", "auto_approved", "rejected", "safeguard_tripped"]
    answer_by: Time
    topic_sensitivity: Sensitivity


@attrs.frozen(kw_only=True)
class Party(Person):
    """A customer or mitra, with the name that the other party may see."""


@attrs.frozen(kw_only=True)
class Goodbye(Closure):
    """The goodbye of a party."""


@attrs.frozen(kw_only=True)
class Search(SearchView):
    """A running search.

    `asked`: how many mitras were asked so far. `answer_by`: the end of the present round. `ends_at`: the end of the
    search. Use `payment_request_id` to cancel the search or to fall back to a blast."""


@attrs.frozen(kw_only=True)
class Session(SessionView):
    """A session as one of its parties sees it.

    `unread_count` is that party's. `search` is present while `searching`. `grace_ends_at` is present while `expired` or
    `closing`: the session is completed by then. `closures` has the party's own goodbye, and the other party's once
    the party has written its own or the session is completed."""

    customer: Party
    mitra: Party | None
    search: Search | None
    closures: Sequence[Goodbye]


@attrs.frozen(kw_only=True)
class OpenSession(Session):
    """A session in the snapshot, with its pending extension if there is one."""

    extension: Extension | None


@attrs.frozen(kw_only=True)
class Message(MessageView):
    """A committed message. `seq` numbers the messages of a session 1, 2, 3 … without gaps."""


@attrs.frozen(kw_only=True)
class Request(ChatRequest):
    """A chat request that the mitra may answer until `answer_by`."""


@attrs.frozen(kw_only=True)
class PaymentFailure(Failure):
    """Why a paid request led to no chat, and what an operator did about it."""


@attrs.frozen(kw_only=True)
class Payment(PaymentView):
    """A payment request as its customer sees it."""

    failure: PaymentFailure | None


# -- the three kinds of frames


class ServerFrame(msgspec.Struct, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """Base of all server frames.

    `server_time` is the service's time, so that apps count down correctly on any phone.
    """

    server_time: Time


class Answer(ServerFrame, kw_only=True):
    """An answer to a client frame. It echoes that frame's `ref`, if it had one."""

    ref: Ref | UnsetType = UNSET


class Event(ServerFrame, kw_only=True):
    """A stored event. It is repeated after each `auth_ok` until one of the user's devices acknowledges it; only a
    `message` is not repeated, because `sync` returns it."""

    event_id: Id


# -- frames of both paths


class AuthOk(Answer, kw_only=True):
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


class Pong(Answer, kw_only=True, tag="pong"):
    """The answer to `ping`."""


class Error(Answer, kw_only=True, tag="error"):
    """A frame was refused; the socket stays open.

    The codes are those of the REST interface, and two more: `INVALID_FRAME` and `UNKNOWN_TYPE`. After `TOO_FAST` wait
    `retry_after_seconds`, then send the frames again in the same order. Messages are in the language of the upgrade
    request."""

    code: Annotated[str, msgspec.Meta(pattern="^[A-Z][A-Z0-9_]*$")]
    message: str
    details: dict[str, Any] | UnsetType = UNSET
    retry_after_seconds: Count | UnsetType = UNSET


# -- /ws/chat


class ChatAuthOk(AuthOk, kw_only=True, tag="auth_ok"):
    """The token is valid; `sessions` are your sessions in `active`, `expired` and `closing`.

    If a `last_seq` is higher than the one you have, `sync` that session. The socket was subscribed before this snapshot
    was taken, so no frame is missed between them."""

    sessions: list[OpenSession]


class MessageAck(Answer, kw_only=True, tag="message_ack"):
    """Your message is committed. A repeat of its `client_message_id` gets the same answer."""

    client_message_id: Uuid
    id: Id
    seq: Positive
    created_at: Time


class NewMessage(Event, kw_only=True, tag="message"):
    """A new message in a session. Sent to every connection of both parties except the one that sent it, in the order of
    `seq`. Acknowledge it by `delivered` or `read`, not by `ack`. If one is lost, `sync` returns it."""

    message: Message


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


class SyncPage(Answer, kw_only=True, tag="sync"):
    """The messages after a `seq`, ascending, at most 200. If `more` is true, `sync` again after the last one."""

    session_id: Id
    messages: list[Message]
    last_seq: Count
    more: bool
    epoch: Epoch


class SessionWarning(Event, kw_only=True, tag="session_warning"):
    """Three minutes of the paid time are left. Sent once for each `expires_at`, to both parties."""

    session_id: Id
    seconds_left: Literal[180]
    expires_at: Time


class SessionStarted(Event, kw_only=True, tag="session_started"):
    """A mitra has accepted, and the paid time has started. Sent to both parties."""

    session: Session


class SessionExpired(Event, kw_only=True, tag="session_expired"):
    """The paid time is over.

    No more messages can be sent; an extension or a goodbye is possible. Sent to both parties.
    """

    session: Session


class SessionResumed(Event, kw_only=True, tag="session_resumed"):
    """An extension was approved, and the session continues until its new `expires_at`. Sent to both parties."""

    session: Session
    extension_id: Id


class SessionClosing(Event, kw_only=True, tag="session_closing"):
    """A party or an operator has ended the session, and both parties may write a goodbye. Sent to both parties."""

    session: Session


class SessionCompleted(Event, kw_only=True, tag="session_completed"):
    """The session is completed: both goodbyes were written, or the grace period is over. Sent to both parties."""

    session: Session


class SessionTopicUpdated(Event, kw_only=True, tag="session_topic_updated"):
    """The mitra has changed the sensitivity of the topic. Sent to both parties."""

    session_id: Id
    topic_sensitivity: Sensitivity


class ExtensionRequested(Event, kw_only=True, tag="extension_requested"):
    """The customer has paid for more minutes. Sent to the mitra, who answers it over REST by `answer_by`."""

    extension: Extension


class ExtensionResolved(Event, kw_only=True, tag="extension_resolved"):
    """An extension was approved or rejected, or the safeguard tripped. Sent to both parties."""

    extension: Extension


# -- /ws/pairing


class SearchAuthOk(AuthOk, kw_only=True, tag="auth_ok"):
    """The customer's token is valid; `searching` is the running search, or null."""

    searching: Session | None


class DeskAuthOk(AuthOk, kw_only=True, tag="auth_ok"):
    """The mitra's token is valid; `requests` are the chat requests that the mitra may answer."""

    requests: list[Request]


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
    mitra: Party | UnsetType = UNSET


class PaymentUpdated(Event, kw_only=True, tag="payment_updated"):
    """A payment request of the customer has changed in a way that no other event reports: an extension was paid, a
    request expired or was abandoned on another device, money came too late or led to no chat, or an operator acted. The
    ids of one request's events increase in the order of its changes."""

    payment_request: Payment


class ChatRequestMade(Event, kw_only=True, tag="chat_request"):
    """A customer is looking for a mitra. Sent to each mitra who is asked, and again with a later `answer_by` in a new
    round."""

    request: Request


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


class Accepted(Answer, kw_only=True, tag="accepted"):
    """The mitra was the first to accept and has the session."""

    session: Session


# -- the frames of each path, by type of user

_BOTH = (AuthExpiring, Pong, Error)
_CHAT = (
    ChatAuthOk, MessageAck, NewMessage, MessageStatus, PartyTyping, SyncPage, SessionWarning, SessionStarted, SessionExpired,
    SessionResumed, SessionClosing, SessionCompleted, SessionTopicUpdated, ExtensionResolved, *_BOTH,
)  # fmt: skip
FRAMES: dict[tuple[str, UserType], tuple[type[ServerFrame], ...]] = {
    ("chat", UserType.CUSTOMER): _CHAT,
    ("chat", UserType.MITRA): (*_CHAT, ExtensionRequested),
    ("pairing", UserType.CUSTOMER): (SearchAuthOk, PairingStatus, PaymentUpdated, *_BOTH),
    ("pairing", UserType.MITRA): (DeskAuthOk, ChatRequestMade, ChatRequestClosed, MitraStatusChanged, Accepted, *_BOTH),
}
