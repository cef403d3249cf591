"""Rules of chat messages (docs/protocol.md#chat).

Drafts and their results are msgspec structs, because thousands are made each second.
"""

import datetime as dt
import enum
from typing import Any, Literal

import attrs
import msgspec

from core.base import field_messages, shown_texts
from core.base.actor import UserType
from core.base.errors import DomainError, Kind, Repeat, ValidationFailed
from core.base.languages import Text
from core.base.plain_json import depth_of, has_nul, has_surrogate
from core.events.notices import StoredMessage

MAX_CONTENT = 4000  # characters of its NFC
MAX_METADATA = 4096  # bytes of JSON
MAX_DEPTH = 32  # deeper nesting could be stored, but not every client could parse it
TYPES = frozenset({"text"})
SenderType = Literal["customer", "mitra", "system"]
MessageStatus = Literal["sent", "delivered", "read"]


class TooFast(DomainError):
    """The user sends messages of one session, or other costly frames, faster than the limit."""

    kind = Kind.TOO_SOON
    code = "TOO_FAST"
    message = Text(
        en="Too many messages. Wait, then resend them in the same order.",
        id="Terlalu cepat. Mohon tunggu, lalu kirim lagi dengan urutan yang sama.",
    )
    repeat = Repeat.WAIT
    advice = "Stop sending messages of that session, wait, then send them again in the same order."


class StoreResult(msgspec.Struct, frozen=True, kw_only=True):
    """A stored message. `repeated`: it was stored before, and the other fields are those of the first time."""

    id: str
    seq: int
    created_at: dt.datetime
    repeated: bool


class NotStored(enum.Enum):
    """Why a message was not stored."""

    NOT_ACTIVE = "not_active"  # the session is over or has not begun
    NOT_A_PARTY = "not_a_party"  # the session is not one of the sender, or does not exist


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A checked message that has no `seq` yet. `sender_id` is the id of the party that sends it."""

    id: str
    session_id: str
    sender_id: str
    client_message_id: str
    type: str
    content: str
    metadata: str | None  # JSON text

    def stored(self, result: StoreResult, *, customer_id: str, mitra_id: str, skip: str | None = None) -> StoredMessage:
        """Return the message as it is published after it was stored for the first time.

        `skip` is the connection that sent it.
        """
        return StoredMessage(
            id=result.id,
            session_id=self.session_id,
            customer_id=customer_id,
            mitra_id=mitra_id,
            seq=result.seq,
            sender_type=UserType.MITRA if self.sender_id == mitra_id else UserType.CUSTOMER,
            client_message_id=self.client_message_id,
            type=self.type,
            content=self.content,
            metadata=self.metadata,
            created_at=result.created_at,
            skip=skip,
        )


class Marker(enum.Enum):
    """The four read markers of a session: a party has received, or read, all messages up to a seq."""

    CUSTOMER_DELIVERED = UserType.CUSTOMER, "delivered"
    CUSTOMER_READ = UserType.CUSTOMER, "read"
    MITRA_DELIVERED = UserType.MITRA, "delivered"
    MITRA_READ = UserType.MITRA, "read"

    def __init__(self, reader: UserType, status: MessageStatus) -> None:
        self.reader = reader
        self.status = status
        self.field = f"{reader}_{status}"  # of ReadMarkers

    __hash__ = object.__hash__  # the hot path keeps markers in dicts, and Enum would hash the name each time

    @classmethod
    def moved_by(cls, reader: UserType, *, read: bool) -> "tuple[Marker, ...]":
        """List the markers that move when a party has received messages, or read them: what is read is delivered."""
        if reader is UserType.MITRA:
            return (cls.MITRA_DELIVERED, cls.MITRA_READ) if read else (cls.MITRA_DELIVERED,)
        return (cls.CUSTOMER_DELIVERED, cls.CUSTOMER_READ) if read else (cls.CUSTOMER_DELIVERED,)


@attrs.define(kw_only=True)
class ReadMarkers:
    """Read markers: the highest seq that each side has received and read (0: none, or no change)."""

    customer_delivered: int = 0
    customer_read: int = 0
    mitra_delivered: int = 0
    mitra_read: int = 0

    def of(self, marker: Marker) -> int:
        """Return the seq of a marker."""
        return getattr(self, marker.field)

    def of_other(self, side: UserType) -> tuple[int, int]:
        """Return up to which seq the other party of `side` has received and read."""
        if side is UserType.MITRA:
            return self.customer_delivered, self.customer_read
        return self.mitra_delivered, self.mitra_read

    def move(self, marker: Marker, seq: int) -> bool:
        """Move a marker forward to `seq`. Return False if it is there already."""
        if seq <= getattr(self, marker.field):
            return False
        setattr(self, marker.field, seq)
        return True


@attrs.frozen(kw_only=True)
class Unshown:
    """A device of a party that has a session's messages up to a seq without showing them."""

    session_id: str
    side: UserType
    device_id: str
    up_to: int


def check_message(*, message_type: str, content: str, metadata: dict[str, Any] | None) -> str | None:
    """Check a message and return its metadata as JSON text.

    This covers all that PostgreSQL would refuse, because one bad row fails its whole batch. Raises ValidationFailed.
    """
    if message_type not in TYPES:
        raise ValidationFailed.of("type", field_messages.one_of(TYPES))
    shown_texts.check_text("content", content, most=MAX_CONTENT)
    return None if metadata is None else _metadata_text(metadata)


def _metadata_text(metadata: dict[str, Any]) -> str:
    if depth_of(metadata) > MAX_DEPTH:
        raise ValidationFailed.of(
            "metadata",
            field_messages.depth(MAX_DEPTH),
        )
    if has_surrogate(metadata):
        raise ValidationFailed.of("metadata", field_messages.NO_SURROGATES)
    try:
        text = msgspec.json.encode(metadata).decode()
    except (msgspec.EncodeError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValidationFailed.of("metadata", Text(en="must be valid JSON", id="harus berupa JSON yang sah")) from error
    if len(text.encode()) > MAX_METADATA:
        raise ValidationFailed.of("metadata", field_messages.most_bytes(MAX_METADATA))
    if has_nul(metadata):
        raise ValidationFailed.of("metadata", field_messages.NO_NUL)
    return text
