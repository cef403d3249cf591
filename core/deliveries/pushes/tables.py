"""The table of pushes that wait for their provider."""

from piccolo.table import Table

from core.storage import columns
from core.storage.personal import Erase, Personal

NOTIFICATION = Personal("notifications; `content` has ids, no names", "an hour", Erase.ROW)


class Push(Table, tablename="pushes", db=columns.ENGINE):
    """One push for one device, stored until the provider has taken or refused it.

    Times are real time. A process claims a push by moving `due_real_at` forward; if it dies, the push becomes due
    again.
    """

    id = columns.identifier()
    auth_session_id = columns.plain_id(null=False, owner="AuthSession")
    push_token = columns.string(255, personal=NOTIFICATION)
    content = columns.json(null=False, personal=NOTIFICATION)
    urgent = columns.flag()
    # The push is about the end of the device's own auth session.
    is_farewell = columns.flag()
    attempts = columns.number(default=0)
    due_real_at = columns.moment(null=False)
    expires_real_at = columns.moment(null=False)
