"""Decide who receives the events of a session and its extensions, store and send them (docs/events.md).

An event is stored without goodbyes; they are stored once, with their session. So an event that waits for its
acknowledgement holds no personal text, and each time it is sent it shows what its recipient may read by then
(docs/product.md#goodbyes).
"""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import attrs
import msgspec

from core.base.actor import UserType
from core.deliveries import events
from core.deliveries import store as deliveries
from core.events.notices import Notice
from core.sessions import views
from core.sessions.extensions.store import Extension
from core.sessions.extensions.views import view_of
from core.sessions.rules import WARNING, Closure, closures_for
from core.sessions.states import SessionStatus
from core.sessions.store import Session
from core.storage.transaction import Reader, Tx

WITH_GOODBYES = frozenset({"session_closing", "session_completed"})


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
                found.append(events.notice(at, party.id, side, view.id, {"type": event, "session": stored, **more}))
    await deliveries.add(tx, found, as_sent=await add_goodbyes(tx, found))


async def topic_updated(tx: Tx, session: Session, topic_sensitivity: str) -> None:
    """Send the topic's new sensitivity to both parties. This event never becomes a push."""
    frame = {"type": "session_topic_updated", "session_id": session.id, "topic_sensitivity": topic_sensitivity}
    await deliveries.add(tx, _both(await tx.event_time(), session, frame))


def _both(at: dt.datetime, session: Session, frame: dict[str, Any]) -> list[Notice]:
    found = [events.notice(at, session.customer_id, UserType.CUSTOMER, session.id, frame)]
    if session.mitra_id is not None:
        found.append(events.notice(at, session.mitra_id, UserType.MITRA, session.id, frame))
    return found


async def extension_requested(tx: Tx, session: Session, extension: Extension) -> None:
    """Ask the mitra for more minutes."""
    assert session.mitra_id is not None
    view = view_of(extension, topic_sensitivity=session.topic_sensitivity)
    frame = {"type": "extension_requested", "extension": view}
    await deliveries.add(
        tx, [events.notice(await tx.event_time(), session.mitra_id, UserType.MITRA, session.id, frame)]
    )


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
        found.append(events.notice(at, customer_id, UserType.CUSTOMER, session_id, frame))
        found.append(events.notice(at, mitra_id, UserType.MITRA, session_id, frame))
    await deliveries.add(tx, found)


async def add_goodbyes(reader: Reader, notices: list[Notice]) -> list[Notice]:
    """Return the events as they are sent. Events of a session's end get the goodbyes that their recipient may read."""
    ended = {notice.session_id for notice in notices if notice.event in WITH_GOODBYES and notice.session_id is not None}
    if not ended:
        return notices
    written = await views.closures_of(reader, list(ended))
    return [
        _with_goodbyes(notice, written[notice.session_id])
        if notice.event in WITH_GOODBYES and notice.session_id in written
        else notice
        for notice in notices
    ]


def _with_goodbyes(notice: Notice, closures: list[Closure]) -> Notice:
    frame = msgspec.json.decode(notice.payload)
    session = frame["session"]
    side, status = UserType(notice.recipient_type), SessionStatus(session["status"])
    session["closures"] = closures_for(side, closures, status)
    return msgspec.structs.replace(notice, payload=msgspec.json.encode(frame).decode())
