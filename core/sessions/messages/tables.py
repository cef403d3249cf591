"""The tables of chat messages and of their digests."""

from piccolo.constraints import Check, Unique
from piccolo.table import Table

from core.sessions.messages.rules import MessageStatus, SenderType
from core.storage import columns
from core.storage.personal import Erase, Personal

CONVERSATION = Personal(
    "the conversation",
    "`retention_messages_days` after the end (0: always)",
    Erase.BY_HAND,
    "empty, both sides",
    exported=True,
)
DIGEST = Personal(
    "both phones and the service can compare a chat; a hash of its messages",
    "always; of blanked sessions only the last one",
    Erase.KEEP,
)


class ChatMessage(Table, tablename="chat_messages", db=columns.ENGINE):
    """A message, stored exactly once. `status`, `delivered_at` and `read_at` follow the read markers in bulk."""

    id = columns.identifier()
    session_id = columns.plain_id(null=False)  # triggers enforce the reference (piccolo_migrations/0005_guards.sql)
    seq = columns.number()
    sender_type = columns.string(10)
    sender_id = columns.plain_id(null=False)
    client_message_id = columns.plain_id(null=False)
    type = columns.string(20, default="text", personal=None)
    content = columns.text(personal=CONVERSATION)
    metadata = columns.json(personal=CONVERSATION)
    status = columns.string(20, default="sent")
    delivered_at = columns.moment()
    read_at = columns.moment()
    created_at = columns.created()

    gapless = Unique(["session_id", "seq"])
    once = Unique(["session_id", "sender_id", "client_message_id"])
    known_sender_type = columns.words("sender_type", SenderType)
    known_status = columns.words("status", MessageStatus)
    sane = Check("seq > 0")


class ChatDigest(Table, tablename="chat_digests", db=columns.ENGINE):
    """The digest of a chat up to a seq: at multiples of 64, and at the last message of a blanked session."""

    id = columns.identifier()
    session_id = columns.reference("ChatSession")
    seq = columns.number()
    digest = columns.raw_bytes(personal=DIGEST)

    once = Unique(["session_id", "seq"])
    sane = Check("seq > 0 AND length(digest) = 32")
