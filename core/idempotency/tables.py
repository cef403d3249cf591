"""First answers, kept for repeats (contract 2, Idempotency-Key)."""

from piccolo.constraints import Unique
from piccolo.table import Table

from core.storage import columns


class IdempotencyKey(Table, tablename="idempotency_keys"):
    """One key of one user. `answer` is null while the first request is still running."""

    id = columns.identifier()
    user_id = columns.plain_id(null=False)
    key = columns.string(255)
    fingerprint = columns.string(64)
    http_status = columns.number(null=True)
    answer = columns.text(null=True)
    # What the first request has made, and (real time) when somebody last worked on its answer.
    resource_id = columns.plain_id()
    claimed_real_at = columns.moment()
    created_at = columns.moment(null=False)

    one_answer = Unique(["user_id", "key"])
