"""The progress of one session's chat in a realtime process."""

import datetime as dt

from core.base.actor import UserType
from core.events.notices import ReadMarkerMoved, StoredMessage
from core.sessions.messages.rules import Marker, ReadMarkers
from realtime.connection import Connection


class Feed:
    """The progress of one session's chat in this process."""

    __slots__ = (
        "customer_id", "held", "id", "last_seq", "mitra_id", "read_markers", "reading", "sent", "synced_up_to",
    )  # fmt: skip

    def __init__(self, session_id: str, customer_id: str, mitra_id: str) -> None:
        self.id = session_id
        self.customer_id = customer_id
        self.mitra_id = mitra_id
        self.sent = 0  # every seq up to this one has been sent to the sockets here
        self.last_seq = 0  # the highest seq known to be committed
        self.held: dict[int, StoredMessage] = {}
        self.reading = False
        self.read_markers = ReadMarkers()
        self.synced_up_to = 0  # up to this seq, the status columns of single messages are final

    @property
    def parties(self) -> tuple[str, str]:
        """The ids of the customer and the mitra."""
        return self.customer_id, self.mitra_id

    def party(self, connection: Connection) -> str | None:
        """Return the id under which the connection's user is a party of the session; None if they aren't one."""
        actor = connection.actor
        if actor is None:
            return None
        party = self.mitra_id if actor.user_type is UserType.MITRA else self.customer_id
        return party if actor.owns(party) else None

    def moved(self, marker: Marker, seq: int, *, at: dt.datetime, skip: str | None = None) -> ReadMarkerMoved:
        """Return the publication of a marker that moved to `seq`. `skip` is the connection that sent it."""
        return ReadMarkerMoved(
            session_id=self.id,
            customer_id=self.customer_id,
            mitra_id=self.mitra_id,
            reader=marker.reader,
            status=marker.status,
            up_to=seq,
            at=at,
            skip=skip,
        )

    def note_committed(self, seq: int) -> None:
        """Record that all messages up to `seq` are committed."""
        if seq > self.last_seq:
            self.last_seq = seq
