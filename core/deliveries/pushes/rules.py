"""Which events become a push, and what it carries: what the app opens, and nothing private
(docs/protocol.md#pushes)."""

import datetime as dt
import enum
import math
from collections.abc import Mapping
from typing import Any

import attrs

from core.base.languages import Language, Text

KEEP = dt.timedelta(hours=1)  # real time; how long a push about something without an answer time is useful


class Action(enum.StrEnum):
    """What the app opens when the user taps the push, or does when a silent push arrives."""

    OPEN_ACCEPT = "open_accept"
    OPEN_SESSION = "open_session"
    OPEN_CLOSURE = "open_closure"
    OPEN_PAIRING = "open_pairing"
    OPEN_MESSAGE = "open_message"
    OPEN_PAYMENT = "open_payment"
    OPEN_STATUS = "open_status"
    PRESENCE_CHECK = "presence_check"  # opens nothing: the app sends a heartbeat


@attrs.frozen(kw_only=True)
class Words:
    """The text of a push, and what the app opens."""

    action: Action
    title: Text
    body: Text


@attrs.frozen(kw_only=True)
class Content:
    """The content of a push, in all languages. `urgent`: a person waits for an answer. `ttl` is in real time.

    A push without words is silent: it is for the app, not for the user.
    """

    data: dict[str, str]
    words: Words | None
    urgent: bool
    ttl: dt.timedelta

    def said_in(self, language: Language) -> dict[str, str]:
        """Return the data of the push, with its title and body in one language if it has them."""
        if self.words is None:
            return self.data
        return {
            **self.data,
            "title": self.words.title.said_in(language),
            "body": self.words.body.said_in(language),
        }


# Event -> its text.
WORDS: dict[str, Words] = {
    "chat_request": Words(
        action=Action.OPEN_ACCEPT,
        title=Text(id="Permintaan chat baru", en="New chat request"),
        body=Text(id="Ada pelanggan yang menunggu. Terima sekarang?", en="A customer is waiting. Accept now?"),
    ),
    "session_started": Words(
        action=Action.OPEN_SESSION,
        title=Text(id="Sesi dimulai", en="Session started"),
        body=Text(id="Sesi chat Anda sudah dimulai.", en="Your chat session has started."),
    ),
    "session_expired": Words(
        action=Action.OPEN_SESSION,
        title=Text(id="Waktu sesi habis", en="Session time is up"),
        body=Text(id="Perpanjang sesi atau ucapkan salam penutup.", en="Extend the session or say goodbye."),
    ),
    "session_resumed": Words(
        action=Action.OPEN_SESSION,
        title=Text(id="Sesi diperpanjang", en="Session extended"),
        body=Text(id="Sesi chat Anda berlanjut.", en="Your chat session continues."),
    ),
    "session_closing": Words(
        action=Action.OPEN_CLOSURE,
        title=Text(id="Sesi berakhir", en="Session ended"),
        body=Text(id="Ucapkan salam penutup Anda.", en="Say goodbye now."),
    ),
    "session_completed": Words(
        action=Action.OPEN_CLOSURE,
        title=Text(id="Sesi selesai", en="Session completed"),
        body=Text(id="Sesi chat Anda telah selesai.", en="Your chat session is completed."),
    ),
    "peer_absent": Words(
        action=Action.OPEN_SESSION,
        title=Text(id="Anda ditunggu", en="You are awaited"),
        body=Text(id="Sesi chat Anda masih berjalan. Buka aplikasi.", en="Your chat session is running. Open the app."),
    ),
    "extension_requested": Words(
        action=Action.OPEN_SESSION,
        title=Text(id="Permintaan perpanjangan", en="Extension request"),
        body=Text(id="Pelanggan ingin memperpanjang sesi.", en="The customer wants to extend the session."),
    ),
    "extension_resolved": Words(
        action=Action.OPEN_SESSION,
        title=Text(id="Perpanjangan dijawab", en="Extension answered"),
        body=Text(id="Lihat jawaban permintaan perpanjangan.", en="See the answer to the extension request."),
    ),
    "pairing_status": Words(
        action=Action.OPEN_PAIRING,
        title=Text(id="Status permintaan chat", en="Chat request status"),
        body=Text(id="Ada kabar tentang permintaan chat Anda.", en="There is news about your chat request."),
    ),
    "payment_updated": Words(
        action=Action.OPEN_PAYMENT,
        title=Text(id="Status pembayaran", en="Payment status"),
        body=Text(id="Ada kabar tentang pembayaran Anda.", en="There is news about your payment."),
    ),
    "mitra_status_changed": Words(
        action=Action.OPEN_STATUS,
        title=Text(id="Anda sedang offline", en="You are offline"),
        body=Text(id="Buka aplikasi untuk melihat status Anda.", en="Open the app to see your status."),
    ),
    "message": Words(
        action=Action.OPEN_MESSAGE,
        title=Text(id="Pesan baru", en="New message"),
        body=Text(id="Anda menerima pesan baru.", en="You have received a new message."),
    ),
}

# Events that are never pushed -> why not. Each event is in WORDS or here; docs/events.md shows both.
NOT_PUSHED: dict[str, str] = {
    "session_topic_updated": "A label of the chat has changed; the app shows it when it is opened.",
    "peer_renamed": "The app shows the new name when it is opened; no other push has a name.",
    "session_clock_adjusted": "Nothing is to be done: the session goes on, and the app counts down to its new end.",
    "peer_returned": "The chat goes on, and unread messages are pushed.",
    "session_warning": (
        "It matters to a person who is reading the chat. `session_expired` is pushed when the time is over."
    ),
    "chat_request_closed": "There is nothing to open. The push of `chat_request` itself ends with its answer time.",
}
# (event, field, value): an event with this value in this field is not pushed, although the event is in WORDS -> why
# not.
QUIET: dict[tuple[str, str, str], str] = {
    ("peer_absent", "user_type", "customer"): "The push goes to the absent customer, at once. Its id names no event.",
    ("peer_absent", "user_type", "mitra"): "The push goes to the absent mitra, at once. Its id names no event.",
    ("pairing_status", "status", "searching"): "The customer has just paid, and waits in the app.",
    ("pairing_status", "status", "paired"): "`session_started` is pushed at the same moment.",
    ("mitra_status_changed", "reason", "self"): "The mitra wished it, with a phone in hand.",
}


def presence_check(*, check_id: str, ttl: dt.timedelta) -> Content:
    """Return the silent push that asks a mitra's phone for a heartbeat. `ttl` is in real time.

    The app tries for `lifetime_seconds`, from the push's arrival on.
    """
    action = Action.PRESENCE_CHECK.value
    seconds = str(math.ceil(ttl.total_seconds()))
    data = {"action": action, "event": action, "event_id": check_id, "lifetime_seconds": seconds}
    return Content(data=data, words=None, urgent=False, ttl=ttl)


def is_silent(content: Mapping[str, str]) -> bool:
    """Return whether a push, as it is sent, shows nothing to the user."""
    return "title" not in content


def content_of(
    *, event: str, event_id: str, session_id: str | None, payload: dict[str, Any], now: dt.datetime, scale: float
) -> Content | None:
    """Return what to push for an event; None if it is not pushed.

    `now` and the answer time in the payload are service time. The push is useless after the answer time, so its `ttl`
    ends then.
    """
    if event not in WORDS or any(name == event and payload.get(field) == value for name, field, value in QUIET):
        return None
    words = WORDS[event]
    data = {"action": words.action.value, "event": event, "event_id": event_id}
    if session_id is not None:
        data["session_id"] = session_id
    payment_request_id = payload.get("payment_request", payload).get("payment_request_id")
    if payment_request_id is not None:
        data["payment_request_id"] = payment_request_id
    asked = payload.get("request") or payload.get("extension") or {}
    answer_by = asked.get("answer_by") if event in ("chat_request", "extension_requested") else None
    ttl = KEEP
    if answer_by is not None:
        left = (dt.datetime.fromisoformat(answer_by) - now) / scale
        ttl = max(dt.timedelta(), min(KEEP, left))
    return Content(data=data, words=words, urgent=answer_by is not None, ttl=ttl)
