"""The table of idempotency keys and the answers to their requests."""

from piccolo.constraints import Unique
from piccolo.table import Table

from core.storage import columns


class IdempotencyKey(Table, tablename="idempotency_keys", db=columns.ENGINE):
    """One key of one user. `answer` is null while the first request is still running."""

    id = columns.identifier()
    user_id = columns.plain_id(null=False)
    key = columns.string(255)
    fingerprint = columns.string(64)
    http_status = columns.number(null=True)
    answer = columns.text(null=True)
    # What the first request has made so far, and the real time at which a process last claimed it.
    resource_id = columns.plain_id()
    claimed_real_at = columns.moment()
    created_at = columns.moment(null=False)

    one_answer = Unique(["user_id", "key"])
