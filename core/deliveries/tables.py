"""Events on their way to users (contract 7)."""

from piccolo.table import Table

from core.storage import columns


class Delivery(Table, tablename="deliveries"):
    """One event for one user, written with the change it tells of, gone when it is acknowledged or given up.

    `created_at` is real time: it is compared with PUSH_ACK_SECONDS.
    """

    id = columns.identifier()
    recipient_id = columns.plain_id(null=False)
    recipient_type = columns.string(10)
    event = columns.string(40)
    session_id = columns.plain_id()
    payload = columns.text()
    created_at = columns.moment(null=False)
    # When it was handed over to the pushes (real time).
    pushed_real_at = columns.moment()
