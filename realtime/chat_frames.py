"""The frames that the service sends on `/ws/chat` only (realtime/shared_frames.py)."""

from typing import Literal

from core.base.field_types import ClientMessageId, Count, Digest, Id, Party, Positive, Time
from core.sessions.extensions.views import ExtensionView
from core.sessions.messages.chats import MessageView, OpenSession
from core.sessions.rules import CreditReason
from core.sessions.sensitivity import Sensitivity
from core.sessions.views import SessionView
from realtime.shared_frames import Answer, AuthOk, Epoch, Event, ServerFrame


class ChatAuthOk(AuthOk, kw_only=True, tag="auth_ok"):
    """The token is valid; `sessions` are your sessions in `active`, `expired` and `closing`.

    If a `last_seq` is higher than the one you have, `sync` that session. The socket was subscribed before this snapshot
    was taken, so no frame is missed between them."""

    sessions: list[OpenSession]


class MessageAck(Answer, kw_only=True, tag="message_ack"):
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


class SyncPage(Answer, kw_only=True, tag="sync"):
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
