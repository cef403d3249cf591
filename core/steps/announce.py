"""Decide who receives each event and with which fields, store it and send it (docs/events.md).

Each recipient gets one delivery, written in the transaction of the change and sent after its commit. Messages, read
markers and typing are not events; their forms are in core/events/notices.py.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import attrs
import msgspec

from core.base import ids, traces
from core.base.actor import Actor, UserType
from core.deliveries import store as deliveries
from core.events.notices import Notice, OwnStatusChanged, SearchProgress
from core.events.signals import DeadlineSet
from core.extensions.store import Extension
from core.extensions.views import view_of
from core.logins import store as logins
from core.mitras.rules import StatusReason
from core.payments import views as payment_views
from core.payments.store import PaymentRequest
from core.sessions import chat_requests as requests
from core.sessions import views
from core.sessions.rules import WARNING
from core.sessions.store import Session
from core.sessions.views import Person
from core.steps import goodbyes, trace_parents
from core.storage.transaction import Tx


def _notice(
    at: dt.datetime, recipient_id: str, recipient_type: UserType, session_id: str | None, frame: dict[str, Any]
) -> Notice:
    """Return an event for one recipient (see `_notices`)."""
    return _notices(at, [recipient_id], recipient_type, session_id, frame)[0]


def _notices(
    at: dt.datetime,
    recipient_ids: Sequence[str],
    recipient_type: UserType,
    session_id: str | None,
    frame: dict[str, Any],
    parent: str | None = None,
) -> list[Notice]:
    """Return an event for each recipient, all with one frame, which is encoded once.

    `parent` is the traceparent of its spans; None: of the current span. `at` is the transaction's `event_time`. The caller must read it while the session is locked, so that event ids
    follow the order of changes.
    """
    payload, kind = msgspec.json.encode(frame).decode(), recipient_type.value
    parent = parent or traces.traceparent()
    return [
        Notice(
            event_id=ids.new_event_id(at),
            recipient_id=recipient_id,
            recipient_type=kind,
            event=frame["type"],
            session_id=session_id,
            payload=payload,
            traceparent=parent,
        )
        for recipient_id in recipient_ids
    ]


async def session_event(tx: Tx, session_ids: Sequence[str], event: str, **more: Any) -> None:
    """Send an event about sessions, such as `session_started` or `session_closing`, to both parties of each.

    `more` are further fields of the frame.
    """
    if not session_ids:
        return
    found = []
    at = await tx.event_time()
    for two in await views.by_ids(tx, session_ids):
        for side in (UserType.CUSTOMER, UserType.MITRA):
            view = two.seen_by(side)
            party = view.mitra if side is UserType.MITRA else view.customer
            if party is not None:
                stored = attrs.evolve(view, closures=[])  # goodbyes are added when the event is sent
                found.append(_notice(at, party.id, side, view.id, {"type": event, "session": stored, **more}))
    await deliveries.add(tx, found, as_sent=await goodbyes.add_goodbyes(tx, found))


async def topic_updated(tx: Tx, session: Session, topic_sensitivity: str) -> None:
    """Send the topic's new sensitivity to both parties. This event never becomes a push."""
    frame = {"type": "session_topic_updated", "session_id": session.id, "topic_sensitivity": topic_sensitivity}
    await deliveries.add(tx, _both(await tx.event_time(), session, frame))


def _both(at: dt.datetime, session: Session, frame: dict[str, Any]) -> list[Notice]:
    found = [_notice(at, session.customer_id, UserType.CUSTOMER, session.id, frame)]
    if session.mitra_id is not None:
        found.append(_notice(at, session.mitra_id, UserType.MITRA, session.id, frame))
    return found


async def extension_requested(tx: Tx, session: Session, extension: Extension) -> None:
    """Ask the mitra for more minutes."""
    assert session.mitra_id is not None
    view = view_of(extension, topic_sensitivity=session.topic_sensitivity)
    frame = {"type": "extension_requested", "extension": view}
    await deliveries.add(tx, [_notice(await tx.event_time(), session.mitra_id, UserType.MITRA, session.id, frame)])


async def extension_resolved(tx: Tx, session: Session, extension: Extension, *, to_mitra: bool) -> None:
    """Send the result of an extension to the customer, and to the mitra if `to_mitra` is set (they were asked)."""
    view = view_of(extension, topic_sensitivity=session.topic_sensitivity)
    notices = _both(await tx.event_time(), session, {"type": "extension_resolved", "extension": view})
    await deliveries.add(tx, notices if to_mitra else notices[:1])


async def session_warning(tx: Tx, parties: list[tuple[str, str, str, dt.datetime]]) -> None:
    """Warn both parties of sessions that WARNING is left.

    Each entry of `parties` is (session id, customer id, mitra id, expires_at).
    """
    found = []
    at = await tx.event_time()
    for session_id, customer_id, mitra_id, expires_at in parties:
        frame = {
            "type": "session_warning",
            "session_id": session_id,
            "seconds_left": int(WARNING.total_seconds()),
            "expires_at": expires_at,
        }
        found.append(_notice(at, customer_id, UserType.CUSTOMER, session_id, frame))
        found.append(_notice(at, mitra_id, UserType.MITRA, session_id, frame))
    await deliveries.add(tx, found)


async def pairing_status(
    tx: Tx,
    *,
    customer_id: str,
    payment_request_id: str | None,
    session_id: str | None,
    status: str,
    topic_sensitivity: str = "regular",
    asked: int | None = None,
    cause_tag: str | None = None,
    mitra: Person | None = None,
) -> None:
    """Send the customer the state of their search: `searching`, `paired`, `failed` or `cancelled`.

    `asked` is the number of mitras asked so far.
    """
    frame: dict[str, Any] = {
        "type": "pairing_status",
        "payment_request_id": payment_request_id,
        "session_id": session_id,
        "status": status,
        "topic_sensitivity": topic_sensitivity,
    }
    if asked is not None:
        frame["asked"] = asked
    if cause_tag is not None:
        frame["cause_tag"] = cause_tag
    if mitra is not None:
        frame["mitra"] = mitra
    await deliveries.add(tx, [_notice(await tx.event_time(), customer_id, UserType.CUSTOMER, session_id, frame)])


def search_progress(searches: list[Session], asked: dict[str, int]) -> list[SearchProgress]:
    """Return the present number of asked mitras of searches. `asked` has a number for the id of each search."""
    return [
        SearchProgress(
            session_id=search.id,
            customer_id=search.customer_id,
            payment_request_id=search.payment_request_id,
            topic_sensitivity=search.topic_sensitivity,
            asked=asked[search.id],
        )
        for search in searches
    ]


async def payment_updated(tx: Tx, payments: list[PaymentRequest]) -> None:
    """Send payment requests to their customers, for changes that no other event reports."""
    if not payments:
        return
    at = await tx.event_time()
    customers = {payment.id: payment.customer_id for payment in payments}
    found = []
    for view in await payment_views.by_ids(tx, list(customers)):
        frame = {"type": "payment_updated", "payment_request": view}
        found.append(_notice(at, customers[view.payment_request_id], UserType.CUSTOMER, None, frame))
    await deliveries.add(tx, found)


async def payment_abandoned(tx: Tx, by: Actor, payments: list[PaymentRequest]) -> None:
    """Send payment requests that a customer has abandoned on one device (`by`) if the customer has other devices."""
    if payments and await logins.has_another(tx, by):
        await payment_updated(tx, payments)


async def chat_requests(tx: Tx, session_id: str, mitra_ids: list[str]) -> None:
    """Send the chat request of a session to the mitras who were asked in this transaction: all see the same one."""
    if not mitra_ids:
        return
    request = await requests.of_session(tx, session_id, mitra_ids[0])
    assert request is not None
    frame = {"type": "chat_request", "request": request}
    parent = await trace_parents.of_session(tx, session_id)
    await deliveries.add(tx, _notices(await tx.event_time(), mitra_ids, UserType.MITRA, session_id, frame, parent))


async def requests_closed(
    tx: Tx, session_id: str, mitra_ids: list[str], reason: str, *, topic_sensitivity: str
) -> None:
    """Tell mitras that a chat request is closed.

    `reason` is `taken`, `cancelled`, `timeout`, `accepted` or `rejected`.
    """
    frame = {
        "type": "chat_request_closed",
        "session_id": session_id,
        "topic_sensitivity": topic_sensitivity,
        "reason": reason,
    }
    if mitra_ids:
        at = await tx.event_time()
        await deliveries.add(tx, _notices(at, mitra_ids, UserType.MITRA, session_id, frame))


async def mitra_status_changed(
    tx: Tx, mitra_ids: Sequence[str], *, is_online: bool, reason: StatusReason
) -> list[Notice]:
    """Send mitras their new presence, to all devices. Only the newest unacknowledged report is kept.

    Returns the stored events; none for `StatusReason.SELF`, which is sent to connected devices only. The caller must
    hold the locks of the mitras' rows.
    """
    await deliveries.forget(tx, mitra_ids, "mitra_status_changed")
    if reason is StatusReason.SELF:
        tx.outgoing.own_statuses.extend(OwnStatusChanged(mitra_id=one, is_online=is_online) for one in mitra_ids)
        return []
    frame = {"type": "mitra_status_changed", "is_online": is_online, "reason": reason.value}
    await deliveries.add(tx, found := _notices(await tx.event_time(), mitra_ids, UserType.MITRA, None, frame))
    return found


def deadline(tx: Tx, at: dt.datetime | None) -> None:
    """Wake the jobs process if `at` is sooner than the deadline that it is waiting for. None does nothing."""
    if at is not None:
        tx.emit(DeadlineSet(at=at))
