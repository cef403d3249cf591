"""Events and other frames on their way from a commit to sockets (docs/events.md)."""

import msgspec


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """One event for one user, to be sent to all of their sockets.

    `payload` is the frame as JSON text, without `event_id` and `server_time`, which are added when it is sent.
    """

    event_id: str
    recipient_id: str
    recipient_type: str
    event: str
    session_id: str | None
    payload: str


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A committed chat message, with what a process needs to send it to both parties in order."""

    session_id: str
    customer_id: str
    mitra_id: str
    seq: int
    frame: bytes  # the complete `message` frame
    skip: str | None = None  # the connection that sent the message; it gets the acknowledgement instead


class EphemeralFrame(msgspec.Struct, frozen=True, kw_only=True):
    """An ephemeral frame, which is not stored.

    There are four kinds: typing, read markers, a mitra's own change of status, and the number of mitras that a search
    has asked.

    `path` is the socket's path, chat or pairing. If `search_id` is set, the frame is dropped once the recipient's
    sockets have been sent the end of this search.
    """

    recipient_id: str
    frame: bytes
    skip: str | None = None
    path: str = "chat"
    search_id: str | None = None


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """The frames that one process publishes to all other realtime processes at a time; its own sockets have them."""

    notices: list[Notice] = []
    messages: list[StoredMessage] = []
    # The name on the wire is that of the first release, so that processes of both versions understand each other.
    ephemeral: list[EphemeralFrame] = msgspec.field(default_factory=list, name="passing")


def encode(envelope: Envelope) -> bytes:
    """Encode an envelope for the bus."""
    return msgspec.msgpack.encode(envelope)


def decode(data: bytes) -> Envelope:
    """Decode an envelope; unknown fields are ignored. Raises msgspec.DecodeError for any other data."""
    return msgspec.msgpack.decode(data, type=Envelope)
