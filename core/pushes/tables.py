"""Pushes on their way to a provider (contract 7)."""

from piccolo.table import Table

from core.storage import columns


class Push(Table, tablename="pushes"):
    """One push for one device, from when it is due until the provider has taken or refused it.

    Times are real: who sends a push holds it by moving `due_real_at` on, so that another one takes it up after a death.
    """

    id = columns.identifier()
    auth_session_id = columns.plain_id(null=False)
    push_token = columns.string(255)
    content = columns.json(null=False)
    urgent = columns.flag()
    # Of an event that ends the device's auth session.
    is_farewell = columns.flag()
    attempts = columns.number(default=0)
    due_real_at = columns.moment(null=False)
    expires_real_at = columns.moment(null=False)
