"""The table of invitations."""

from piccolo.constraints import Check
from piccolo.table import Table

from core.pairing.rules import Response
from core.storage import columns


class ChatRequestNotification(Table, tablename="chat_request_notifications", db=columns.ENGINE):
    """One mitra, invited once to one session. `response` is null while the invitation is open."""

    id = columns.identifier()
    session_id = columns.reference("ChatSession")
    mitra_id = columns.reference("Mitra")
    round_number = columns.number(default=1)
    wave_number = columns.number(default=0)
    notified_at = columns.moment(null=False)
    answer_by = columns.moment(null=False)
    response = columns.string(20, null=True)
    responded_at = columns.moment()
    active_session_count = columns.number(default=0)

    known_response = columns.words("response", Response)
    answered_has_a_time = Check("(response IS NULL) = (responded_at IS NULL)")
