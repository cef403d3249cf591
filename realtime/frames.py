"""Every frame that a client may send (docs/protocol.md#websockets), and how one is read.

The docstrings of the frames are their descriptions in the AsyncAPI document, so they address app developers.
"""

from typing import Annotated, Any

import attrs
import msgspec

from core.base import field_messages
from core.base.errors import ValidationFailed
from core.base.field_types import MAX_INT
from core.base.languages import Language, Text
from core.base.plain_json import SURROGATE, has_surrogate, own_text, with_surrogates
from core.sessions.messages.rules import MAX_CONTENT

MAX_REF = 200  # characters; the refusal of a longer one carries it whole
MAX_NAME = 100  # characters of a field's name in an error message
# A look-ahead instead of "$", which would allow a newline at the end.
UUID_PATTERN = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}(?![\s\S])"
Uuid = Annotated[str, msgspec.Meta(pattern=UUID_PATTERN)]
Seq = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT)]
Ref = Annotated[str, msgspec.Meta(max_length=MAX_REF)]
# For the document only: core checks these two and answers VALIDATION_ERROR, not INVALID_FRAME.
Content = Annotated[str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_CONTENT})]
MessageType = Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["text"]})]


class Frame(msgspec.Struct, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """Base of all client frames. Each may carry a `ref`, and its answer echoes it."""

    ref: Ref | None = None


class Auth(Frame, tag="auth"):
    """Authenticate the socket: the first frame, within 5 s, and again before the token expires.

    The answer is `auth_ok`. If the token is not valid, the socket closes with 4401."""

    token: str


class SendMessage(Frame, tag="send_message"):
    """Send a message of 1 to 4,000 characters, with up to 4,096 bytes of metadata.

    `message_ack` answers it once it is committed. One sender's `client_message_id` is stored once, so repeat an
    unacknowledged message unchanged.

    `TOO_FAST` means that you are over the rate limit of messages. Stop sending messages to that session, wait
    `retry_after_seconds`, then send the refused ones again in the same order, starting with the first. Later messages
    are refused until that one has arrived."""

    session_id: Uuid
    client_message_id: Uuid
    content: Content
    message_type: MessageType = "text"
    metadata: dict[str, Any] | None = None


class Delivered(Frame, tag="delivered"):
    """Mark every message up to `up_to` as received by this device. This acknowledges them.

    With `shown: false` the device has them and the user can't see them, for example in a hidden tab: they stay `sent`,
    and the push goes out to the user's devices that do not have them; if all have them, to all. Send the frame without
    `shown` when the user is back."""

    session_id: Uuid
    up_to: Seq
    shown: bool = True


class Read(Frame, tag="read"):
    """Mark every message up to `up_to` as read by the user. This acknowledges them."""

    session_id: Uuid
    up_to: Seq


class Typing(Frame, tag="typing"):
    """Show the other party that the user started or stopped typing."""

    session_id: Uuid
    is_typing: bool


class Sync(Frame, tag="sync"):
    """Request the messages after a `seq`. Send it after each `auth_ok`, and when a `seq` is missing.

    Over the rate limit of frames the answer is `TOO_FAST` with `retry_after_seconds`; the socket stays open."""

    session_id: Uuid
    after: Seq


class Ack(Frame, tag="ack"):
    """Acknowledge an event: this device has it.

    With `shown: false` the device has it and the user can't see it, for example in a hidden tab: the push goes out to
    the user's devices that do not have it; if all have it, to all. The others still get the event. Send the frame
    without `shown` when the user is back.

    An id that is unknown, already acknowledged or another user's is ignored, and counts as 5 frames."""

    event_id: Uuid
    shown: bool = True


class Ping(Frame, tag="ping"):
    """Check that the service answers; the answer is `pong`.

    Client libraries answer the protocol's own pings by themselves. This frame is for checks by the app."""


class Accept(Frame, tag="accept"):
    """Accept a chat request as a mitra. The first mitra to accept gets the session."""

    session_id: Uuid


class Reject(Frame, tag="reject"):
    """Decline a chat request as a mitra. The mitra's devices get `chat_request_closed`."""

    session_id: Uuid


class Heartbeat(Frame, tag="heartbeat"):
    """Report that the mitra's app is still connected. Every other frame from a mitra counts as well.

    It is answered only if the mitra is offline: by the error `MITRA_OFFLINE`."""


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


# Codes of error frames for what can't be read; the other codes are those of the errors in core.
INVALID_FRAME, UNKNOWN_TYPE = "INVALID_FRAME", "UNKNOWN_TYPE"


@attrs.frozen(kw_only=True)
class Fault:
    """Why a frame can't be read. `ref` is the frame's own, or None if it could not be read either.

    `field` is the bad field of a VALIDATION_ERROR, else None.
    """

    code: str
    text: Text
    ref: str | None
    field: str | None = None

    def details_in(self, language: Language) -> dict[str, Any] | None:
        """Return the details of the error frame; None without."""
        if self.field is None:
            return None
        return ValidationFailed.of(self.field, field_messages.NO_SURROGATES).details_in(language)


class Unreadable(Exception):
    """A client frame that can't be read. To say why takes time, so the sender is charged first."""

    def __init__(self, path: str, data: bytes, why: str) -> None:
        super().__init__(why)
        self._path = path
        self._data = data

    def explain(self) -> Fault:
        """Return why the frame can't be read."""
        return _explain(self._path, self._data, str(self))


class NotText(Unreadable):
    """A text frame that is not UTF-8; the connection must be closed (RFC 6455, 8.1)."""


def read(path: str, data: bytes) -> Any:
    """Return the frame in `data`, if the path takes it. Raises Unreadable, and NotText if it is not UTF-8."""
    try:
        return DECODERS[path].decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        try:
            data.decode()
        except UnicodeDecodeError:
            raise NotText(path, data, str(error)) from error
        raise Unreadable(path, data, str(error)) from error


def find_ref(data: bytes) -> str | None:
    """Return the `ref` of a frame that can't be decoded; None without one."""
    return own_text(data, "ref")


def _explain(path: str, data: bytes, why: str) -> Fault:
    half = False
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        raw = with_surrogates(data)
        half = raw is not None
        if not half:
            return _invalid(Text(en="The frame must be JSON.", id="Frame harus berupa JSON."), find_ref(data))
    if not isinstance(raw, dict):
        return _invalid(Text(en="The frame must be a JSON object.", id="Frame harus berupa objek JSON."), None)
    ref = raw["ref"] if isinstance(raw.get("ref"), str) else None
    if half:
        return _half(raw, ref)
    if not isinstance(raw.get("type"), str):
        return _invalid(Text(en="The frame must have a `type`.", id="Frame harus memiliki `type`."), ref)
    if raw["type"] not in TYPES[path]:
        text = Text(en="This endpoint has no frame of this type.", id="Tidak ada frame berjenis ini di sini.")
        return Fault(code=UNKNOWN_TYPE, text=text, ref=ref)
    field, rule = field_messages.of_decoder(why)
    name = f" `{field[:MAX_NAME]}`" if field else ""
    return _invalid(Text(en=f"The field{name} {rule.en}.", id=f"Isian{name} {rule.id}."), ref)


def _invalid(text: Text, ref: str | None) -> Fault:
    return Fault(code=INVALID_FRAME, text=text, ref=ref)


def _half(raw: dict[str, Any], ref: str | None) -> Fault:
    """Explain a frame with half a character, such as a text that was cut inside an emoji."""
    fields = list(raw.items())
    while len(fields) > 1:
        first = fields[: len(fields) // 2]
        fields = first if has_surrogate(first) else fields[len(first) :]
    return Fault(
        code=ValidationFailed.code,
        text=ValidationFailed.message,
        ref=None if ref and has_surrogate(ref) else ref,
        field=SURROGATE.sub("\ufffd", fields[0][0])[:MAX_NAME],
    )
