"""Every frame that a client may send (contract 7). What can't be read as one of them is refused by name."""

from typing import Annotated, Any

import msgspec

from core.base import field_messages
from core.base.languages import Text

MAX_SEQ = 2**31 - 1
MAX_NAME = 100  # characters of a field's name in an error message
# The end is a look-ahead, because "$" lets a newline pass behind it.
UUID_PATTERN = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}(?![\s\S])"
Uuid = Annotated[str, msgspec.Meta(pattern=UUID_PATTERN)]
Seq = Annotated[int, msgspec.Meta(ge=0, le=MAX_SEQ)]
Ref = Annotated[str, msgspec.Meta(max_length=200)]


class Frame(msgspec.Struct, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """Every frame may carry a `ref`, which its answer echoes."""

    ref: Ref | None = None


class Auth(Frame, tag="auth"):
    """The first frame, within 5 s, and again before the token expires. Answered by `auth_ok`, or closed with 4401."""

    token: str


class SendMessage(Frame, tag="send_message"):
    """A message of 1 to 4000 characters, with up to 4096 bytes of metadata. Acknowledged when it is committed; the same
    `client_message_id` of one sender is stored once, so what was not acknowledged is sent again as it was.

    Over the rate of messages: `TOO_FAST`. Stop sending messages of that session, wait, and send again in the same order,
    beginning with the first one that was refused: later ones are refused until it has come."""

    session_id: Uuid
    client_message_id: Uuid
    content: str
    message_type: str = "text"
    metadata: dict[str, Any] | None = None


class Delivered(Frame, tag="delivered"):
    """This device has every message up to here. It acknowledges them."""

    session_id: Uuid
    up_to: Seq


class Read(Frame, tag="read"):
    """The user has read every message up to here. It acknowledges them."""

    session_id: Uuid
    up_to: Seq


class Typing(Frame, tag="typing"):
    """The user began or stopped typing."""

    session_id: Uuid
    is_typing: bool


class Sync(Frame, tag="sync"):
    """Send me the messages behind this seq: after each `auth_ok`, and when a seq was left out.

    Over the frame budget it is answered by `TOO_FAST` with `retry_after_seconds`; the socket stays."""

    session_id: Uuid
    after: Seq


class Ack(Frame, tag="ack"):
    """This device has that event. An id that is unknown, foreign or finished is ignored, and costs as much as 5 frames."""

    event_id: Uuid


class Ping(Frame, tag="ping"):
    """Are you there? The protocol's own pings are answered by every client library; this one is for an app."""


class Accept(Frame, tag="accept"):
    """A mitra takes a request. The first one gets it."""

    session_id: Uuid


class Reject(Frame, tag="reject"):
    """A mitra says no. Her devices are told by `chat_request_closed`."""

    session_id: Uuid


class Heartbeat(Frame, tag="heartbeat"):
    """A mitra is still here. Any other frame of hers says so, too."""


ChatFrame = Auth | SendMessage | Delivered | Read | Typing | Sync | Ack | Ping
PairingFrame = Auth | Accept | Reject | Heartbeat | Ack | Ping
TYPES = {
    "chat": frozenset({"auth", "send_message", "delivered", "read", "typing", "sync", "ack", "ping"}),
    "pairing": frozenset({"auth", "accept", "reject", "heartbeat", "ack", "ping"}),
}
DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "chat": msgspec.json.Decoder(ChatFrame),
    "pairing": msgspec.json.Decoder(PairingFrame),
}


class Unreadable(Exception):
    """A frame that is none: with the code and, if it could be seen, the frame's own ref."""

    def __init__(self, code: str, text: Text, ref: str | None) -> None:
        super().__init__(text.en)
        self.text = text
        self.code = code
        self.ref = ref


class NotText(Unreadable):
    """A text frame that is not UTF-8: the connection can't go on (RFC 6455, 8.1)."""


def read(path: str, data: bytes) -> Any:
    """Return the frame. Raises Unreadable."""
    try:
        return DECODERS[path].decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        try:
            data.decode()
        except UnicodeDecodeError:
            raise NotText(
                "INVALID_FRAME", Text(en="The frame must be UTF-8.", id="Frame harus berupa UTF-8."), None
            ) from error
        raise _explain(path, data, error) from error


def _explain(path: str, data: bytes, error: Exception) -> Unreadable:
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return Unreadable("INVALID_FRAME", Text(en="The frame must be JSON.", id="Frame harus berupa JSON."), None)
    if not isinstance(raw, dict):
        return Unreadable(
            "INVALID_FRAME", Text(en="The frame must be a JSON object.", id="Frame harus berupa objek JSON."), None
        )
    ref = raw.get("ref")
    ref = ref if isinstance(ref, str) and len(ref) <= 200 else None
    if not isinstance(raw.get("type"), str):
        return Unreadable(
            "INVALID_FRAME", Text(en="The frame must have a `type`.", id="Frame harus memiliki `type`."), ref
        )
    if raw["type"] not in TYPES[path]:
        return Unreadable(
            "UNKNOWN_TYPE",
            Text(en="This endpoint has no frame of this type.", id="Tidak ada frame berjenis ini di sini."),
            ref,
        )
    field, rule = field_messages.of_decoder(str(error))
    name = f" `{field[:MAX_NAME]}`" if field else ""
    text = Text(en=f"The field{name} {rule.en}.", id=f"Isian{name} {rule.id}.")
    return Unreadable("INVALID_FRAME", text, ref)
