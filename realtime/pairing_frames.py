"""The frames that the service sends on `/ws/pairing` only (realtime/shared_frames.py)."""

from typing import Literal

from msgspec import UNSET, UnsetType

from core.accounts.mitras.rules import StatusReason
from core.base.field_types import Count, Id, Person
from core.pairing.views import ChatRequest
from core.payments.failures.causes import CauseTag
from core.payments.views import PaymentRequestView
from core.sessions.sensitivity import Sensitivity
from core.sessions.views import SessionView
from realtime.shared_frames import Answer, AuthOk, Event


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


class Accepted(Answer, kw_only=True, tag="accepted"):
    """The mitra was the first to accept and has the session."""

    session: SessionView
