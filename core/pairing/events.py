"""The events of a search, of a mitra's presence and of a customer's account."""

import datetime as dt
from typing import Literal

from msgspec import UNSET, UnsetType

from core.accounts.mitras.rules import StatusReason
from core.base.actor import UserType
from core.base.field_types import Count, Id, Person
from core.base.languages import Text
from core.deliveries.events import Event
from core.deliveries.pushes.rules import Action, Words
from core.events.changes import SignInMethod
from core.pairing.views import ChatRequest
from core.payments.events import AT, PAYMENT_ID
from core.payments.failures.causes import CauseTag
from core.sessions.examples import SESSION_ID
from core.sessions.sensitivity import Sensitivity

SearchState = Literal["searching", "paired", "failed", "cancelled"]
CloseReason = Literal["taken", "cancelled", "timeout", "accepted", "rejected"]
REQUEST = ChatRequest(
    session_id=SESSION_ID,
    customer_display_name="Dewi",
    mode="chat",
    topics=["work"],
    topic_sensitivity=Sensitivity.REGULAR,
    duration_minutes=12,
    kind="blast",
    notified_at=AT,
    answer_by=AT + dt.timedelta(seconds=30),
)
# The field that PairingStatus has with each status; the others are missing.
FIELD_OF_STATUS = {"searching": "asked", "paired": "mitra", "failed": "cause_tag", "cancelled": "cause_tag"}


class PairingEvent(Event, kw_only=True):
    """An event of a search or of a mitra at work, for mitras unless it says otherwise."""

    socket = "pairing"
    sent_to = (UserType.MITRA,)


class PairingStatus(PairingEvent, kw_only=True, tag="pairing_status"):
    """The status of the customer's search. `asked`, the number of mitras asked so far, is present with `searching`;
    `cause_tag` with `failed` and `cancelled`; `mitra` with `paired`. `session_id` is null if the request ended before
    it had a session. When more mitras are asked, `searching` is sent again, at most every 2 s. These repeats have no
    `event_id`, need no acknowledgement and may be lost: keep the larger number."""

    payment_request_id: Id
    session_id: Id | None
    status: SearchState
    topic_sensitivity: Sensitivity
    asked: Count | UnsetType = UNSET
    cause_tag: CauseTag | UnsetType = UNSET
    mitra: Person | UnsetType = UNSET

    sent_to = (UserType.CUSTOMER,)
    order_key = "pairing_status {payment_request_id}"
    app = (
        "`searching`: show how many mitras were asked. `paired`: open the session. `failed`: show why, and after a "
        "`targeted_…` cause offer to ask all mitras. `cancelled`: leave the search."
    )
    push = Words(
        action=Action.OPEN_PAIRING,
        title=Text(id="Status permintaan chat", en="Chat request status"),
        body=Text(id="Ada kabar tentang permintaan chat Anda.", en="There is news about your chat request."),
        quiet={
            ("status", "searching"): "The customer has just paid, and waits in the app.",
            ("status", "paired"): "`session_started` is pushed at the same moment.",
        },
    )
    example = {
        "payment_request_id": PAYMENT_ID,
        "session_id": SESSION_ID,
        "status": "failed",
        "topic_sensitivity": Sensitivity.REGULAR,
        "cause_tag": CauseTag.NO_MITRA_AVAILABLE,
    }
    is_always_stored = False


class ChatRequestMade(PairingEvent, kw_only=True, tag="chat_request"):
    """A customer is looking for a mitra. Sent to each mitra who is asked, and again with a later `answer_by` in a new
    round."""

    request: ChatRequest

    order_key = "chat_request {request.session_id}"
    app = "Show it with a countdown to `answer_by`. It replaces an earlier one of the same session."
    push = Words(
        action=Action.OPEN_ACCEPT,
        title=Text(id="Permintaan chat baru", en="New chat request"),
        body=Text(id="Ada pelanggan yang menunggu. Terima sekarang?", en="A customer is waiting. Accept now?"),
        answer_by_in="request",
    )
    example = {"request": REQUEST}


class ChatRequestClosed(PairingEvent, kw_only=True, tag="chat_request_closed"):
    """This mitra can no longer answer a chat request. `taken`: another mitra accepted it. `timeout`: the mitra is not
    asked again. `accepted` and `rejected`: the mitra has answered on another device."""

    session_id: Id
    topic_sensitivity: Sensitivity
    reason: CloseReason

    order_key = "chat_request {session_id}"
    app = "Remove the request from the list."
    push = "There is nothing to open. The push of `chat_request` itself ends with its answer time."
    example = {"session_id": SESSION_ID, "topic_sensitivity": Sensitivity.REGULAR, "reason": "taken"}


class MitraStatusChanged(PairingEvent, kw_only=True, tag="mitra_status_changed"):
    """The mitra went online or offline. `self`: on one of the mitra's devices; this one is not stored and has no
    `event_id`. All others are stored until acknowledged or replaced by a newer one. `stale`: there was no heartbeat for
    too long. `deactivated`: the sockets close with 4403."""

    is_online: bool
    reason: StatusReason

    order_key = "mitra_status_changed"
    app = "Show the state and the reason. `stale`, `operator`: offer to go online again. `deactivated`: sign out."
    push = Words(
        action=Action.OPEN_STATUS,
        title=Text(id="Anda sedang offline", en="You are offline"),
        body=Text(id="Buka aplikasi untuk melihat status Anda.", en="Open the app to see your status."),
        quiet={("reason", "self"): "The mitra wished it, with a phone in hand."},
    )
    example = {"is_online": False, "reason": StatusReason.STALE}
    is_always_stored = False


class AccountUpdated(PairingEvent, kw_only=True, tag="account_updated"):
    """A phone or an identity (`a` or `b`) was linked to the customer's account on one of the devices, or unlinked. A
    phone that replaces another one signs all other devices out."""

    method: SignInMethod
    linked: bool

    sent_to = (UserType.CUSTOMER,)
    order_key = "account_updated"
    app = "Read the customer again (`GET /api/client/auth/me`), and say what has changed."
    push = Words(
        action=Action.OPEN_ACCOUNT,
        title=Text(id="Cara masuk diubah", en="Sign-in changed"),
        body=Text(id="Cara masuk ke akun Anda telah diubah.", en="A way to sign in to your account has changed."),
    )
    example = {"method": "a", "linked": True}
