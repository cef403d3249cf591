"""The events of sessions, their messages and their extensions."""

import datetime as dt
from typing import Literal

import attrs

from core.base.actor import UserType
from core.base.field_types import Id, Party, Time
from core.base.languages import Text
from core.deliveries.events import BOTH, Event
from core.deliveries.pushes.rules import Action, Words
from core.sessions import examples
from core.sessions.extensions.states import ExtensionStatus
from core.sessions.extensions.views import ExtensionView
from core.sessions.messages.chats import MessageView
from core.sessions.rules import CreditReason
from core.sessions.sensitivity import Sensitivity
from core.sessions.views import SessionView


class SessionEvent(Event, kw_only=True):
    """An event of a session, for both parties unless it says otherwise."""

    socket = "chat"
    sent_to = BOTH
    order_key = "session {session.id}"


class NewMessage(SessionEvent, kw_only=True, tag="message"):
    """A new message in a session. Sent to every connection of both parties except the one that sent it, in the order of
    `seq`. Acknowledge it by `delivered` or `read`, not by `ack`. If one is lost, `sync` returns it."""

    message: MessageView

    order_key = "message {message.id}"
    app = (
        "Show it in the order of `seq`. If a `seq` is missing before it, `sync`. Send `read` when the user has seen it."
    )
    push = Words(
        action=Action.OPEN_MESSAGE,
        title=Text(id="Pesan baru", en="New message"),
        body=Text(id="Anda menerima pesan baru.", en="You have received a new message."),
    )
    example = {"message": examples.MESSAGE}
    acknowledged_by = ("delivered", "read")


class SessionWarning(SessionEvent, kw_only=True, tag="session_warning"):
    """Three minutes of the paid time are left. Sent once for each `expires_at`, to both parties."""

    session_id: Id
    seconds_left: Literal[180]
    expires_at: Time

    order_key = "session_warning {session_id}"
    app = "Show that three minutes are left. In the customer's app, offer an extension."
    push = "It matters to a person who is reading the chat. `session_expired` is pushed when the time is over."
    example = {"session_id": examples.SESSION_ID, "seconds_left": 180, "expires_at": examples.ENDS}


class SessionStarted(SessionEvent, kw_only=True, tag="session_started"):
    """A mitra has accepted, and the paid time has started. Sent to both parties."""

    session: SessionView

    app = "Open the chat. Count down to `expires_at` by the service's time, not the phone's."
    push = Words(
        action=Action.OPEN_SESSION,
        title=Text(id="Sesi dimulai", en="Session started"),
        body=Text(id="Sesi chat Anda sudah dimulai.", en="Your chat session has started."),
    )
    example = {"session": examples.STARTED}


class SessionExpired(SessionEvent, kw_only=True, tag="session_expired"):
    """The paid time is over.

    No more messages can be sent; an extension or a goodbye is possible. Sent to both parties.
    """

    session: SessionView

    app = "Stop sending messages. Offer a goodbye and, to the customer, an extension."
    push = Words(
        action=Action.OPEN_SESSION,
        title=Text(id="Waktu sesi habis", en="Session time is up"),
        body=Text(id="Perpanjang sesi atau ucapkan salam penutup.", en="Extend the session or say goodbye."),
    )
    example = {"session": examples.EXPIRED}


class SessionResumed(SessionEvent, kw_only=True, tag="session_resumed"):
    """An extension was approved, and the session continues until its new `expires_at`. Sent to both parties."""

    session: SessionView
    extension_id: Id

    app = "Let the user write again, and count down to the new `expires_at`."
    push = Words(
        action=Action.OPEN_SESSION,
        title=Text(id="Sesi diperpanjang", en="Session extended"),
        body=Text(id="Sesi chat Anda berlanjut.", en="Your chat session continues."),
    )
    example = {"session": examples.RESUMED, "extension_id": examples.EXTENSION_ID}


class SessionClockAdjusted(SessionEvent, kw_only=True, tag="session_clock_adjusted"):
    """The session got paid time back: `session.expires_at` is later by `added_seconds`. Sent to both parties.

    The time was lost in an outage of the `database` or `realtime` processes, or because the mitra was away. An expired
    session may be active again.
    """

    session: SessionView
    added_seconds: int
    reason: CreditReason

    app = (
        "Count down to the new `expires_at`, say in the chat that time was given back, and let the user write if "
        "the session is `active` again."
    )
    push = "Nothing is to be done: the session goes on, and the app counts down to its new end."
    example = {"session": examples.RESUMED, "added_seconds": 90, "reason": CreditReason.REALTIME}


class SessionClosing(SessionEvent, kw_only=True, tag="session_closing"):
    """A party or an operator has ended the session, and both parties may write a goodbye. Sent to both parties."""

    session: SessionView

    app = "Stop sending messages, and offer a goodbye."
    push = Words(
        action=Action.OPEN_CLOSURE,
        title=Text(id="Sesi berakhir", en="Session ended"),
        body=Text(id="Ucapkan salam penutup Anda.", en="Say goodbye now."),
    )
    example = {"session": examples.CLOSING}


class SessionCompleted(SessionEvent, kw_only=True, tag="session_completed"):
    """The session is completed: both goodbyes were written, or the grace period is over. Sent to both parties."""

    session: SessionView

    app = "Close the chat. Show both goodbyes from `closures`."
    push = Words(
        action=Action.OPEN_CLOSURE,
        title=Text(id="Sesi selesai", en="Session completed"),
        body=Text(id="Sesi chat Anda telah selesai.", en="Your chat session is completed."),
    )
    example = {"session": examples.COMPLETED}


class SessionTopicUpdated(SessionEvent, kw_only=True, tag="session_topic_updated"):
    """The mitra has changed the sensitivity of the topic. Sent to both parties."""

    session_id: Id
    topic_sensitivity: Sensitivity

    order_key = "session_topic_updated {session_id}"
    app = "Change the label of the chat. The customer's app shows no notice."
    push = "A label of the chat has changed; the app shows it when it is opened."
    example = {"session_id": examples.SESSION_ID, "topic_sensitivity": Sensitivity.SENSITIVE}


class ExtensionRequested(SessionEvent, kw_only=True, tag="extension_requested"):
    """The customer has paid for more minutes. Sent to the mitra, who answers it over REST by `answer_by`."""

    extension: ExtensionView

    sent_to = (UserType.MITRA,)
    order_key = "extension {extension.id}"
    app = "Ask the mitra, with a countdown to `answer_by`, and send the answer over REST."
    push = Words(
        action=Action.OPEN_SESSION,
        title=Text(id="Permintaan perpanjangan", en="Extension request"),
        body=Text(id="Pelanggan ingin memperpanjang sesi.", en="The customer wants to extend the session."),
        answer_by_in="extension",
    )
    example = {"extension": examples.EXTENSION}


class ExtensionResolved(SessionEvent, kw_only=True, tag="extension_resolved"):
    """An extension was approved or rejected, or the safeguard tripped. Sent to both parties."""

    extension: ExtensionView

    order_key = "extension {extension.id}"
    app = "Show the outcome to the customer. If it was approved, `session_resumed` comes as well."
    push = Words(
        action=Action.OPEN_SESSION,
        title=Text(id="Perpanjangan dijawab", en="Extension answered"),
        body=Text(id="Lihat jawaban permintaan perpanjangan.", en="See the answer to the extension request."),
    )
    example = {"extension": attrs.evolve(examples.EXTENSION, status=ExtensionStatus.APPROVED)}


class PeerRenamed(SessionEvent, kw_only=True, tag="peer_renamed"):
    """The other party has another name now, in an open session. Sent when a party's name changes."""

    session_id: Id
    display_name: str

    order_key = "peer_renamed {session_id}"
    app = "Show the new name of the other party wherever the chat shows it."
    push = "The app shows the new name when it is opened; no other push has a name."
    example = {"session_id": examples.SESSION_ID, "display_name": "Dewi"}


class PeerAbsent(SessionEvent, kw_only=True, tag="peer_absent"):
    """The other party, `user_type`, has given no sign of life on any device since `since`, for longer than the
    configuration row `peer_absent_seconds`. Sent to the party who is left."""

    session_id: Id
    user_type: Party
    since: Time

    order_key = "peer {session_id}"
    app = "Show that the other party is away since `since`, until `peer_returned`, or the session closes."
    push = Words(
        action=Action.OPEN_SESSION,
        title=Text(id="Anda ditunggu", en="You are awaited"),
        body=Text(id="Sesi chat Anda masih berjalan. Buka aplikasi.", en="Your chat session is running. Open the app."),
        quiet={
            ("user_type", "customer"): "The push goes to the absent customer, at once. Its id names no event.",
            ("user_type", "mitra"): "The push goes to the absent mitra, at once. Its id names no event.",
        },
    )
    example = {"session_id": examples.SESSION_ID, "user_type": "mitra", "since": examples.AT - dt.timedelta(minutes=2)}


class PeerReturned(SessionEvent, kw_only=True, tag="peer_returned"):
    """The other party, `user_type`, is back. Sent to the party who got `peer_absent`."""

    session_id: Id
    user_type: Party

    order_key = "peer {session_id}"
    app = "Stop showing that the other party is away."
    push = "The chat goes on, and unread messages are pushed."
    example = {"session_id": examples.SESSION_ID, "user_type": "mitra"}
