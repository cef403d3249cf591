"""The table of extensions."""

from piccolo.constraints import Check
from piccolo.table import Table

from core.sessions.extensions.states import ExtensionStatus
from core.storage import columns


class SessionExtension(Table, tablename="session_extensions", db=columns.ENGINE):
    """More minutes for a session, paid before the mitra is asked."""

    id = columns.identifier()
    session_id = columns.reference("ChatSession")
    requested_duration_minutes = columns.number()
    requested_price = columns.number()
    status = columns.string(20, default="pending")
    requested_at = columns.moment(null=False)
    answer_by = columns.moment(null=False)
    responded_at = columns.moment()
    payment_request_id = columns.reference("PaymentRequest", null=True, unique=True)

    known_status = columns.words("status", ExtensionStatus)
    answered_has_a_time = Check("(status = 'pending') = (responded_at IS NULL)")
