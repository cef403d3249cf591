"""Announce the events of core/sessions/events.py to the parties of sessions (docs/events.md).

An event is stored without goodbyes; they are stored once, with their session. So an event that waits for its
acknowledgement holds no personal text, and each time it is sent it shows what its recipient may read by then
(docs/product.md#goodbyes).
"""

from collections.abc import Sequence
from typing import Protocol

import attrs
import msgspec

from core.base.actor import UserType
from core.deliveries import events
from core.deliveries import store as deliveries
from core.deliveries.events import Event
from core.events.notices import Notice
from core.sessions import views
from core.sessions.events import SessionClosing, SessionCompleted
from core.sessions.rules import Closure, closures_for
from core.sessions.states import SessionStatus
from core.sessions.store import Session
from core.sessions.views import SessionView
from core.storage.transaction import Reader, Tx

WITH_GOODBYES = frozenset({SessionClosing.type_name(), SessionCompleted.type_name()})


class AboutSession(Protocol):
    """Makes the event of a session for one of its parties: an event's class, or a function that adds its fields."""

    def __call__(self, *, session: SessionView) -> Event: ...


async def about_sessions(tx: Tx, session_ids: Sequence[str], about: AboutSession) -> None:
    """Send both parties of each session an event with the session as they see it."""
    if not session_ids:
        return
    made = []
    for two in await views.by_ids(tx, session_ids):
        for side in (UserType.CUSTOMER, UserType.MITRA):
            view = two.seen_by(side)
            party = view.mitra if side is UserType.MITRA else view.customer
            if party is not None:
                event = about(session=attrs.evolve(view, closures=[]))  # goodbyes are added when the event is sent
                made += await events.notices(tx, event, [party.id], side, session_id=view.id)
    await deliveries.add(tx, made, as_sent=await add_goodbyes(tx, made))


async def to_parties(tx: Tx, told: Sequence[tuple[Session, Event]], *, only: UserType | None = None) -> None:
    """Send each event to those parties of its session that its class names, or to `only` one of them."""
    made = []
    for session, event in told:
        ids = {UserType.CUSTOMER: session.customer_id, UserType.MITRA: session.mitra_id}
        for side in event.sent_to:
            if (party_id := ids[side]) is not None and only in (None, side):
                made += await events.notices(tx, event, [party_id], side, session_id=session.id)
    await deliveries.add(tx, made)


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
