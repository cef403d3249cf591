"""Events, messages and unstored changes on their way from a commit to sockets (docs/events.md).

Notices carry data, and realtime processes build the frames (realtime/outgoing.py). Only an event
(core/deliveries/events.py) has its frame already, because it is stored with it.
"""

import datetime as dt

import msgspec

from core.base.actor import UserType

TAG = 8  # last characters of a process's id, with which its envelopes begin


class Notice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event for one user, to be sent to all of their sockets.

    `payload` is the frame as JSON text, without `event_id` and `server_time`, which are added when it is sent.
    """

    event_id: str
    recipient_id: str
    recipient_type: str
    event: str
    session_id: str | None
    payload: str
    traceparent: str | None = None  # of the change that the event reports; it is not stored
    unshown_on: list[str] | None = None  # devices that have acknowledged it without showing it


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A chat message that was just committed, with the parties of its session."""

    id: str
    session_id: str
    customer_id: str
    mitra_id: str
    seq: int
    sender_type: UserType
    client_message_id: str
    type: str
    content: str
    metadata: str | None  # JSON text
    created_at: dt.datetime
    skip: str | None = None  # the connection that sent the message; it gets the acknowledgement instead

    @property
    def sender_id(self) -> str:
        """The party that sent the message."""
        return self.mitra_id if self.sender_type is UserType.MITRA else self.customer_id


class ReadMarkerMoved(msgspec.Struct, frozen=True, kw_only=True):
    """A party has received or read all messages up to `up_to`."""

    session_id: str
    customer_id: str
    mitra_id: str
    reader: UserType  # the party whose marker it is
    status: str  # delivered or read
    up_to: int
    at: dt.datetime
    skip: str | None = None  # the connection that sent the marker


class TypingChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A party of a session started or stopped typing."""

    session_id: str
    recipient_id: str  # the other party
    is_typing: bool


class SearchProgress(msgspec.Struct, frozen=True, kw_only=True):
    """A running search has asked more mitras.

    It is not sent to sockets that have been sent the end of the search.
    """

    session_id: str
    customer_id: str
    payment_request_id: str | None
    topic_sensitivity: str
    asked: int


class OwnStatusChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A mitra went online or offline on one of their devices."""

    mitra_id: str
    is_online: bool


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a process publishes after a commit, for the sockets of all realtime processes.

    A new kind gets a separate field: processes of the last version ignore unknown fields, but refuse an envelope with
    an unknown form of a known one.
    """

    notices: list[Notice] = []
    messages: list[StoredMessage] = []
    read_markers: list[ReadMarkerMoved] = []
    typing: list[TypingChanged] = []
    searches: list[SearchProgress] = []
    own_statuses: list[OwnStatusChanged] = []

    @property
    def empty(self) -> bool:
        """Whether there is nothing to publish."""
        return not (
            self.notices or self.messages or self.read_markers or self.typing or self.searches or self.own_statuses
        )


DECODER = msgspec.msgpack.Decoder(Envelope)


def encode(envelope: Envelope, *, node: str) -> bytes:
    """Encode an envelope for the bus; `node` is the id of the process that publishes it."""
    return node[-TAG:].encode() + msgspec.msgpack.encode(envelope)


def decode(data: bytes, *, node: str) -> Envelope | None:
    """Decode an envelope; None if `node` published it itself.

    Unknown fields are ignored. Raises msgspec.DecodeError for any other data.
    """
    if data[:TAG] == node[-TAG:].encode():
        return None
    return DECODER.decode(memoryview(data)[TAG:])
