"""Events on their way to the sockets of this process: each is sent once to each of its recipient's sockets."""

import contextlib
from collections import OrderedDict

import msgspec

from core.events.notices import Notice
from core.pairing.events import PairingStatus
from core.sessions.events import SessionStarted
from core.telemetry import traces
from core.telemetry.spans import NOTHING, Span
from realtime import outgoing
from realtime.connection import Connection
from realtime.connections import Connections
from realtime.feeds import Feeds
from realtime.server_frames import EVENT_FRAMES

REMEMBER_EVENTS = 50_000  # ids of events that were sent
REMEMBER_ENDS = 10_000  # ids of searches that ended
STARTED, SEARCH = SessionStarted.type_name(), PairingStatus.type_name()
PAIRING_EVENTS = frozenset(frame.event.type_name() for frame in EVENT_FRAMES if frame.event.socket == "pairing")


class Events:
    """The events that were sent to the sockets of this process."""

    def __init__(self, connections: Connections, feeds: Feeds) -> None:
        self._connections = connections
        self._feeds = feeds
        self._sent: OrderedDict[str, None] = OrderedDict()
        self._ended_searches: OrderedDict[str, None] = OrderedDict()

    def send(self, notice: Notice) -> None:
        """Send an event to its recipient's sockets here, unless it has been sent before."""
        path = "pairing" if notice.event in PAIRING_EVENTS else "chat"
        mine = self._connections.of(path, notice.recipient_id)
        if not mine or notice.event_id in self._sent:
            return
        _remember(self._sent, notice.event_id, REMEMBER_EVENTS)
        if notice.event == STARTED:
            self._begin(notice)
        self._note_end(notice)
        frame = outgoing.event(notice, server_time=self._connections.server_time())
        with _span(notice, sockets=len(mine)):
            for connection in mine:
                connection.put_event(frame, notice.event_id)

    def is_missing(self, event_id: str, recipient_id: str) -> bool:
        """Return whether the recipient has sockets here, and the event was not sent to them."""
        return event_id not in self._sent and bool(self._connections.of_user(recipient_id))

    def repeated(self, connection: Connection, unacknowledged: list[Notice]) -> dict[str, bytes]:
        """Return the frames of unacknowledged events for a new connection, by the ids of the events."""
        is_pairing = connection.path == "pairing"
        mine = [notice for notice in unacknowledged if (notice.event in PAIRING_EVENTS) == is_pairing]
        for notice in mine:
            self._note_end(notice)
        server_time = self._connections.server_time()
        return {notice.event_id: outgoing.event(notice, server_time=server_time) for notice in mine}

    def search_has_ended(self, session_id: str | None) -> bool:
        """Return whether the end of a search has been sent, after which its progress is not."""
        return session_id in self._ended_searches

    def forget_sent(self) -> None:
        """Forget which events were sent."""
        self._sent.clear()

    def _begin(self, notice: Notice) -> None:
        """Open the feed of a session that started while a party was connected, so that lost messages are looked for."""
        session = msgspec.json.decode(notice.payload)["session"]
        self._feeds.begin(session["id"], session["customer"]["id"], session["mitra"]["id"])

    def _note_end(self, notice: Notice) -> None:
        """Remember the end of a customer's search, so that a late report of its progress is dropped."""
        if notice.event != SEARCH or notice.session_id is None:
            return
        if msgspec.json.decode(notice.payload)["status"] != "searching":
            _remember(self._ended_searches, notice.session_id, REMEMBER_ENDS)


def _span(notice: Notice, *, sockets: int) -> contextlib.AbstractContextManager[Span]:
    """Make the span of an event that goes to the sockets here, if the change was traced."""
    if notice.traceparent is None:
        return NOTHING
    ids = {"sesi.event_id": notice.event_id, "sesi.recipient_id": notice.recipient_id, "sesi.sockets": sockets}
    if notice.session_id is not None:
        ids["sesi.session_id"] = notice.session_id
    return traces.span(f"frame {notice.event}", kind="consumer", parent=notice.traceparent, attributes=ids)


def _remember(ids: OrderedDict[str, None], one: str, most: int) -> None:
    ids[one] = None
    if len(ids) > most:
        ids.popitem(last=False)
