"""The table of events that are not acknowledged yet (docs/events.md)."""

from piccolo.table import Table

from core.storage import columns


class Delivery(Table, tablename="deliveries", db=columns.ENGINE):
    """One event for one user, stored with the change that it reports, deleted when it is acknowledged or given up.

    `created_at` is real time: it is compared with PUSH_ACK_SECONDS.
    """

    id = columns.identifier()
    recipient_id = columns.plain_id(null=False)
    recipient_type = columns.string(10)
    event = columns.string(40)
    session_id = columns.plain_id()
    payload = columns.text()
    created_at = columns.moment(null=False)
    # Real time at which it was claimed for pushes.
    pushed_real_at = columns.moment()
