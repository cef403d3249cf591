"""Which events become a push, and what a push says: where to go, and nothing private (contract 7, Push data)."""

import datetime as dt
import enum
from typing import Any

import attrs

KEEP = dt.timedelta(hours=1)  # real: a push about something without an answer time is of use so long


class Action(enum.StrEnum):
    """What the app opens."""

    OPEN_ACCEPT = "open_accept"
    OPEN_SESSION = "open_session"
    OPEN_CLOSURE = "open_closure"
    OPEN_PAIRING = "open_pairing"
    OPEN_MESSAGE = "open_message"
    OPEN_PAYMENT = "open_payment"
    OPEN_STATUS = "open_status"


@attrs.frozen(kw_only=True)
class Content:
    """What a push carries. `urgent`: somebody waits for an answer. `ttl`: real time."""

    data: dict[str, str]
    urgent: bool
    ttl: dt.timedelta


# Event -> what to open, and the words for the notification, in the users' language.
WORDS: dict[str, tuple[Action, str, str]] = {
    "chat_request": (Action.OPEN_ACCEPT, "Permintaan chat baru", "Ada pelanggan yang menunggu. Terima sekarang?"),
    "session_started": (Action.OPEN_SESSION, "Sesi dimulai", "Sesi chat Anda sudah dimulai."),
    "session_expired": (Action.OPEN_SESSION, "Waktu sesi habis", "Perpanjang sesi atau ucapkan salam penutup."),
    "session_resumed": (Action.OPEN_SESSION, "Sesi diperpanjang", "Sesi chat Anda berlanjut."),
    "session_closing": (Action.OPEN_CLOSURE, "Sesi berakhir", "Ucapkan salam penutup Anda."),
    "session_completed": (Action.OPEN_CLOSURE, "Sesi selesai", "Sesi chat Anda telah selesai."),
    "extension_requested": (Action.OPEN_SESSION, "Permintaan perpanjangan", "Pelanggan ingin memperpanjang sesi."),
    "extension_resolved": (Action.OPEN_SESSION, "Perpanjangan dijawab", "Lihat jawaban permintaan perpanjangan."),
    "pairing_status": (Action.OPEN_PAIRING, "Status permintaan chat", "Ada kabar tentang permintaan chat Anda."),
    "payment_updated": (Action.OPEN_PAYMENT, "Status pembayaran", "Ada kabar tentang pembayaran Anda."),
    "mitra_status_changed": (Action.OPEN_STATUS, "Anda sedang offline", "Buka aplikasi untuk melihat status Anda."),
    "message": (Action.OPEN_MESSAGE, "Pesan baru", "Anda menerima pesan baru."),
}

# Events that are never pushed -> why not. Each event is in WORDS or here; docs/events.md shows both.
NOT_PUSHED: dict[str, str] = {
    "session_topic_updated": "A label of the chat has changed; the app shows it when it is opened.",
    "session_warning": "It matters to a person who is reading the chat. `session_expired` is pushed when the time is over.",
    "chat_request_closed": "There is nothing to open. The push of `chat_request` itself ends with its answer time.",
}
# (event, field, value): an event with this value in this field is not pushed, although the event is in WORDS -> why not.
QUIET: dict[tuple[str, str, str], str] = {
    ("pairing_status", "status", "searching"): "The customer has just paid, and waits in the app.",
    ("pairing_status", "status", "paired"): "`session_started` is pushed at the same moment.",
    ("mitra_status_changed", "reason", "self"): "The mitra wished it, with a phone in hand.",
}


def content_of(
    *, event: str, event_id: str, session_id: str | None, payload: dict[str, Any], now: dt.datetime, scale: float
) -> Content | None:
    """Return what to push for an event; None for one that is never pushed.

    `now` is service time; an answer time in the payload, too, which bounds how long the push lives.
    """
    if event not in WORDS or any(name == event and payload.get(field) == value for name, field, value in QUIET):
        return None
    action, title, body = WORDS[event]
    data = {"action": action.value, "event": event, "event_id": event_id, "title": title, "body": body}
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
    return Content(data=data, urgent=answer_by is not None, ttl=ttl)
