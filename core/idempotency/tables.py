"""The table of idempotency keys and the answers to their requests."""

from piccolo.constraints import Unique
from piccolo.table import Table

from core.storage import columns
from core.storage.personal import Erase, Personal

ANSWER = Personal("answers to repeated requests", "24 hours", Erase.BY_HAND, "deleted")


class IdempotencyKey(Table, tablename="idempotency_keys", db=columns.ENGINE):
    """One key of one user. `answer` is null while the first request is still running."""

    id = columns.identifier()
    user_id = columns.plain_id(null=False, owner=True)
    key = columns.string(255, personal=ANSWER)
    fingerprint = columns.string(64, personal=ANSWER)
    http_status = columns.number(null=True)
    answer = columns.text(null=True, personal=ANSWER)
    # What the first request has made so far, and the real time at which a process last claimed it.
    resource_id = columns.plain_id()
    claimed_real_at = columns.moment()
    created_at = columns.moment(null=False)

    one_answer = Unique(["user_id", "key"])
