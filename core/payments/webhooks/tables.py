"""The log of the gateway's calls."""

from piccolo.table import Table

from core.storage import columns
from core.storage.personal import Erase, Personal

KEPT = "`retention_webhook_days`; without a valid token `retention_invalid_webhook_days`"
CALL = Personal("proof of payments", KEPT, Erase.KEEP)
BODY = Personal(
    "proof of payments; may name the payer", KEPT, Erase.BY_HAND, "the payer's fields are masked, what was paid stays"
)


class WebhookLog(Table, tablename="webhook_logs", db=columns.ENGINE):
    """One call of the gateway, stored before it is handled; its result is stored once, before the answer.

    With the source `poll`: money that the gateway reported when it was asked, and that does not fit the request.
    """

    id = columns.identifier()
    received_at = columns.moment(null=False)
    source_ip = columns.string(45, personal=CALL)
    headers = columns.json(null=False, default="{}", personal=CALL)
    token_valid = columns.flag(default=None)
    external_id = columns.text(null=True, personal=CALL)
    gateway_invoice_id = columns.text(null=True, personal=CALL)
    status = columns.text(null=True, personal=CALL)
    amount = columns.text(null=True, personal=CALL)
    app_tag = columns.text(null=True, personal=CALL)
    raw_body = columns.raw_bytes(personal=BODY)
    truncated = columns.flag()
    http_status = columns.number(null=True)
    processing_result = columns.string(60, null=True, personal=None)
    processing_error = columns.text(null=True, personal=CALL)
    replay_of = columns.plain_id()
    source = columns.string(10, default="webhook")
    # How many calls the row stands for; more than one only for counted calls without a valid token.
    calls = columns.number(default=1)
    bytes = columns.big_number(null=True)  # counted calls only: the size of all their bodies
    body_sha256 = columns.string(64, null=True, personal=CALL)  # counted calls only: of the newest body, in hex

    known_source = columns.words("source", ("webhook", "poll"))
