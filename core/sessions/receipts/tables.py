"""The table of receipts."""

from piccolo.constraints import Check
from piccolo.table import Table

from core.storage import columns
from core.storage.personal import Erase, Personal

# The export has the three in one field.
RECEIPT = Personal(
    "what was paid and how long both could talk, signed; times, counts and the digest of the chat, no text",
    "always",
    Erase.KEEP,
)


class SessionReceipt(Table, tablename="session_receipts", db=columns.ENGINE):
    """The receipt of a completed session. A trigger makes the row when a session is completed; it is signed later."""

    id = columns.identifier()
    session_id = columns.reference("ChatSession", unique=True, owner=True)
    talked_until = columns.moment(null=False)  # the end of the paid time, or the early end of the session
    completed_at = columns.moment(null=False)
    # The signed text; null before it is signed, as are the columns below.
    body = columns.text(null=True, personal=RECEIPT)
    key_id = columns.string(64, null=True, personal=RECEIPT)
    signature = columns.string(86, null=True, personal=RECEIPT)  # base64url of 64 bytes
    signed_at = columns.moment()
    # Who wrote in the chat (database function who_wrote), stored with the signature; lists of operators read them.
    messages_by_customer = columns.number(null=True)
    messages_by_mitra = columns.number(null=True)
    first_reply_seconds = columns.number(null=True)
    longest_silence_seconds = columns.number(null=True)

    signed_is_whole = Check(
        "(signed_at IS NULL) = (body IS NULL) AND (signed_at IS NULL) = (key_id IS NULL) "
        "AND (signed_at IS NULL) = (signature IS NULL)"
    )
