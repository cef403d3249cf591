"""Every frame that the server sends (contract 7): the declaration. The tests hold each frame they receive to it.

How this works: the message path builds its frames by hand, for speed; these classes say what comes out. `forbid_unknown_fields`
makes them a strict mirror of what we send. Clients are to be milder: fields are only ever added, so they ignore those
that they do not know. Objects are the views of `core`, with their words made precise.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import attrs
import msgspec
from msgspec import UNSET, UnsetType

from core.base.actor import UserType
from core.mitras.rules import StatusReason
from core.pairing.rules import CauseTag
from core.pairing_failures.rules import OperatorAction
from core.payments.states import PaymentStatus
from core.payments.views import Failure, PaymentView
from core.reads.chats import ChatRequest, MessageView
from core.sessions.rules import Closure
from core.sessions.states import SessionStatus
from core.sessions.views import Person, SearchView, SessionView
from realtime.frames import Ref, Uuid

ID_PATTERN = "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$"
Id = Annotated[str, msgspec.Meta(pattern=ID_PATTERN, extra_json_schema={"format": "uuid"})]
Time = Annotated[dt.datetime, msgspec.Meta(tz=True)]
# Of the database's history. Another one than before: what was committed last may be lost (see the description).
Epoch = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Mode = Literal["chat", "call"]
Sensitivity = Literal["regular", "sensitive"]


# -- objects


class User(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Who this socket belongs to."""

    id: Id
    type: Literal["customer", "mitra"]


class Extension(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """More minutes for a session, paid already; the mitra answers until `answer_by`, else the service does."""

    id: Id
    session_id: Id
    requested_duration_minutes: Positive
    requested_price: Count
    status: Literal["pending", "approved", "auto_approved", "rejected", "safeguard_tripped"]
    answer_by: Time
    topic_sensitivity: Sensitivity


@attrs.frozen(kw_only=True)
class Party(Person):
    """A customer or mitra, by the name that the other one may see."""

    id: Id


@attrs.frozen(kw_only=True)
class Goodbye(Closure):
    """What a party wrote at the end."""

    user_type: Literal["customer", "mitra"]
    created_at: Time


@attrs.frozen(kw_only=True)
class Search(SearchView):
    """A running search: how many mitras it has asked so far, when its round ends, and when it ends itself. The payment
    request is what `cancel` and `fallback-to-blast` name."""

    asked: Count
    answer_by: Time
    ends_at: Time
    payment_request_id: Id


@attrs.frozen(kw_only=True)
class Session(SessionView):
    """A session as one of its parties sees it; `unread_count` is that party's. `search` is there while `searching`,
    `grace_ends_at` while `expired` or `closing`: the session is completed then at the latest. `closures` has the
    party's own goodbye, and the other one's once the party has written its own or the session is completed."""

    id: Id
    customer: Party
    mitra: Party | None
    mode: Mode
    status: SessionStatus
    topic_sensitivity: Sensitivity
    created_at: Time
    paired_at: Time | None
    expires_at: Time | None
    ended_at: Time | None
    ended_by: Literal["customer", "mitra", "timer", "operator"] | None
    search: Search | None
    grace_ends_at: Time | None
    closures: Sequence[Goodbye]


@attrs.frozen(kw_only=True)
class OpenSession(Session):
    """A session of the snapshot: with the extension that waits for an answer, if there is one."""

    extension: Extension | None


@attrs.frozen(kw_only=True)
class Message(MessageView):
    """A committed message. `seq` counts 1, 2, 3 … in its session, without gaps."""

    id: Id
    session_id: Id
    seq: Positive
    sender_type: Literal["customer", "mitra", "system"]
    sender_id: Id
    client_message_id: Uuid
    type: Literal["text"]
    status: Literal["sent", "delivered", "read"]
    created_at: Time
    delivered_at: Time | None
    read_at: Time | None


@attrs.frozen(kw_only=True)
class Request(ChatRequest):
    """The open request to a mitra, until `answer_by`."""

    session_id: Id
    mode: Mode
    topic_sensitivity: Sensitivity
    kind: Literal["blast", "targeted"]
    notified_at: Time
    answer_by: Time


@attrs.frozen(kw_only=True)
class PaymentFailure(Failure):
    """Why a paid request has come to no chat, and what an operator has done about it."""

    cause_tag: CauseTag
    operator_action: OperatorAction | None
    actioned_at: Time | None


@attrs.frozen(kw_only=True)
class Payment(PaymentView):
    """A payment request as its customer sees it."""

    payment_request_id: Id
    status: PaymentStatus
    mode: Mode
    amount: Count
    duration_minutes: Positive
    targeted_mitra_id: Id | None
    expires_at: Time
    created_at: Time
    confirmed_at: Time | None
    consumed_at: Time | None
    session_id: Id | None
    failure: PaymentFailure | None


# -- the three sorts of frames


class ServerFrame(msgspec.Struct, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """Every server frame has the service's time, so that a phone with a wrong clock counts down right."""

    server_time: Time


class Answer(ServerFrame, kw_only=True):
    """The answer to a frame of this socket; it echoes that frame's `ref`, if it had one."""

    ref: Ref | UnsetType = UNSET


class Event(ServerFrame, kw_only=True):
    """What must arrive. It comes again, to whoever connects, until one device of the user has acknowledged it."""

    event_id: Id


# -- on both paths


class AuthOk(Answer, kw_only=True):
    """The token is good. The socket was subscribed before this snapshot was taken, so nothing falls between them."""

    user: User
    connection_id: Id
    epoch: Epoch
    ping_seconds: Positive


class AuthExpiring(ServerFrame, kw_only=True, tag="auth_expiring"):
    """Sent 60 s before the access token ends: send `auth` with a new one, or the socket closes with 4401."""

    at: Time


class Pong(Answer, kw_only=True, tag="pong"):
    """The answer to `ping`."""


class Error(Answer, kw_only=True, tag="error"):
    """A frame was refused; the socket stays. The codes are those of the REST interface, and two of the sockets' own:
    `INVALID_FRAME` and `UNKNOWN_TYPE`. After `TOO_FAST` wait `retry_after_seconds`, then send again in the same order.

    The messages are in the language of the upgrade request."""

    code: Annotated[str, msgspec.Meta(pattern="^[A-Z][A-Z0-9_]*$")]
    message: str
    details: dict[str, Any] | UnsetType = UNSET
    retry_after_seconds: Count | UnsetType = UNSET


# -- /ws/chat


class ChatAuthOk(AuthOk, kw_only=True, tag="auth_ok"):
    """The token is good; these are your sessions in `active`, `expired` and `closing`. Compare each `last_seq` with what
    you have, and `sync`. The socket was subscribed before this snapshot was taken, so nothing falls between them."""

    sessions: list[OpenSession]


class MessageAck(Answer, kw_only=True, tag="message_ack"):
    """The message is committed. The same `client_message_id` again is acknowledged as before."""

    client_message_id: Uuid
    id: Id
    seq: Positive
    created_at: Time


class NewMessage(Event, kw_only=True, tag="message"):
    """A message, to every connection of both parties except the one that sent it; each session's in the order of `seq`.
    Not acknowledged by `ack` but by `delivered` or `read`. A message that is lost on the way is found by `sync`."""

    message: Message


class MessageStatus(ServerFrame, kw_only=True, tag="message_status"):
    """The other party has received, or read, every message up to here. What one device has read is read on the user's
    others, so `read` goes to those, too."""

    session_id: Id
    status: Literal["delivered", "read"]
    up_to: Count
    at: Time


class PartyTyping(ServerFrame, kw_only=True, tag="typing"):
    """The other party began or stopped typing. It may be lost; show it for some seconds."""

    session_id: Id
    is_typing: bool


class SyncPage(Answer, kw_only=True, tag="sync"):
    """The messages behind a seq, ascending, 200 at most. `more`: sync again behind the last one."""

    session_id: Id
    messages: list[Message]
    last_seq: Count
    more: bool
    epoch: Epoch


class SessionWarning(Event, kw_only=True, tag="session_warning"):
    """Three minutes are left. Sent once for each `expires_at`, to both parties."""

    session_id: Id
    seconds_left: Literal[180]
    expires_at: Time


class SessionStarted(Event, kw_only=True, tag="session_started"):
    """A mitra has accepted: the paid time runs. Sent to both parties."""

    session: Session


class SessionExpired(Event, kw_only=True, tag="session_expired"):
    """The paid time is over: the chat is frozen, an extension or a goodbye is possible. Sent to both parties."""

    session: Session


class SessionResumed(Event, kw_only=True, tag="session_resumed"):
    """An extension was approved: the session goes on until its new `expires_at`. Sent to both parties."""

    session: Session
    extension_id: Id


class SessionClosing(Event, kw_only=True, tag="session_closing"):
    """A party has ended the session: both may say goodbye. Sent to both parties."""

    session: Session


class SessionCompleted(Event, kw_only=True, tag="session_completed"):
    """Both goodbyes are in, or their time is over. Sent to both parties."""

    session: Session


class SessionTopicUpdated(Event, kw_only=True, tag="session_topic_updated"):
    """The mitra has marked how sensitive the topic is. Sent to both parties."""

    session_id: Id
    topic_sensitivity: Sensitivity


class ExtensionRequested(Event, kw_only=True, tag="extension_requested"):
    """The customer has paid for more minutes. Sent to the mitra, who answers it over REST until `answer_by`."""

    extension: Extension


class ExtensionResolved(Event, kw_only=True, tag="extension_resolved"):
    """The extension is approved, rejected or tripped. Sent to both parties."""

    extension: Extension


# -- /ws/pairing


class SearchAuthOk(AuthOk, kw_only=True, tag="auth_ok"):
    """The customer's token is good; this is the running search, or null."""

    searching: Session | None


class DeskAuthOk(AuthOk, kw_only=True, tag="auth_ok"):
    """The mitra's token is good; these requests are open to her."""

    requests: list[Request]


class PairingStatus(Event, kw_only=True, tag="pairing_status"):
    """How the customer's search stands. `asked`, the number of mitras asked so far, comes with `searching`, `cause_tag` with
    `failed` and `cancelled`, `mitra` with `paired`; `session_id` is null when it ended before there was a session.
    `searching` is repeated when more mitras have been asked, at most every 2 s: without `event_id`, so it is not
    acknowledged, and one that is lost does not come again. Keep the larger number."""

    event_id: Id | UnsetType = UNSET  # type: ignore[assignment] - the repeats alone have none
    payment_request_id: Id
    session_id: Id | None
    status: Literal["searching", "paired", "failed", "cancelled"]
    topic_sensitivity: Sensitivity
    asked: Count | UnsetType = UNSET
    cause_tag: CauseTag | UnsetType = UNSET
    mitra: Party | UnsetType = UNSET


class PaymentUpdated(Event, kw_only=True, tag="payment_updated"):
    """A payment request of the customer has changed, and no other event reports it: a paid extension, a request that has
    expired or was abandoned on another device, money that came too late or could not become a chat, an operator's action.
    The ids of one request's events grow in the order of its changes."""

    payment_request: Payment


class ChatRequestMade(Event, kw_only=True, tag="chat_request"):
    """A customer looks for a mitra: sent to each mitra who is asked, and again with a later `answer_by` in a new round."""

    request: Request


class ChatRequestClosed(Event, kw_only=True, tag="chat_request_closed"):
    """A request is no longer this mitra's to answer. `timeout`: the mitra is not asked again; `accepted` and `rejected`:
    the mitra has answered on another device."""

    session_id: Id
    topic_sensitivity: Sensitivity
    reason: Literal["taken", "cancelled", "timeout", "accepted", "rejected"]


class MitraStatusChanged(Event, kw_only=True, tag="mitra_status_changed"):
    """The mitra went online or offline. `self`: on one of the mitra's devices; this is not stored and has no `event_id`.
    Otherwise it must arrive and is acknowledged; a newer one takes its place. `stale`: no heartbeat came for too long.
    `deactivated`: the sockets close with 4403."""

    event_id: Id | UnsetType = UNSET  # type: ignore[assignment] - the mitra's own changes have none
    is_online: bool
    reason: StatusReason


class Accepted(Answer, kw_only=True, tag="accepted"):
    """The mitra was the first to accept: the session is hers."""

    session: Session


# -- who gets what, on which path

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
