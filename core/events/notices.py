"""A notice: one event for one user, on its way to all of that user's sockets (contract 7)."""

import msgspec


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """`payload` is the frame as JSON text, without `event_id` and `server_time`, which are added when it is sent."""

    event_id: str
    recipient_id: str
    recipient_type: str
    event: str
    session_id: str | None
    payload: str


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A committed chat message: what every process needs to hand it to both parties in order."""

    session_id: str
    customer_id: str
    mitra_id: str
    seq: int
    frame: bytes  # the `message` frame, whole
    skip: str | None = None  # the connection that sent it: it gets the ack instead


class Passing(msgspec.Struct, frozen=True, kw_only=True):
    """A frame that is not stored: typing, marks, a mitra's own change of status, how many mitras a running search has asked.

    `path` is chat or pairing. `search_id`: the frame is dropped once the recipient's sockets have been sent the end of this
    search.
    """

    recipient_id: str
    frame: bytes
    skip: str | None = None
    path: str = "chat"
    search_id: str | None = None


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What one process tells all realtime processes, all at once. Its own sockets have it already."""

    notices: list[Notice] = []
    messages: list[StoredMessage] = []
    passing: list[Passing] = []


def encode(envelope: Envelope) -> bytes:
    """Write for the wire."""
    return msgspec.msgpack.encode(envelope)


def decode(data: bytes) -> Envelope:
    """Read from the wire; unknown fields are ignored. Raises msgspec.DecodeError for what is no envelope."""
    return msgspec.msgpack.decode(data, type=Envelope)
