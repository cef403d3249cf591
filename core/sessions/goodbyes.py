"""Add goodbyes to events when they are sent.

An event is stored without goodbyes; they are stored once, with their session. So an event that waits for its
acknowledgement holds no personal text, and each time it is sent it shows what its recipient may read by then
(docs/product.md#goodbyes).
"""

import msgspec

from core.base.actor import UserType
from core.events.notices import Notice
from core.sessions import views
from core.sessions.rules import Closure, closures_for
from core.sessions.states import SessionStatus
from core.storage.transaction import Reader

EVENTS = frozenset({"session_closing", "session_completed"})


async def add_goodbyes(reader: Reader, notices: list[Notice]) -> list[Notice]:
    """Return the events as they are sent. Events of a session's end get the goodbyes that their recipient may read."""
    ended = {notice.session_id for notice in notices if notice.event in EVENTS and notice.session_id is not None}
    if not ended:
        return notices
    written = await views.closures_of(reader, list(ended))
    return [
        _with(notice, written[notice.session_id]) if notice.event in EVENTS and notice.session_id in written else notice
        for notice in notices
    ]


def _with(notice: Notice, closures: list[Closure]) -> Notice:
    frame = msgspec.json.decode(notice.payload)
    session = frame["session"]
    side, status = UserType(notice.recipient_type), SessionStatus(session["status"])
    session["closures"] = closures_for(side, closures, status)
    return msgspec.structs.replace(notice, payload=msgspec.json.encode(frame).decode())
