"""The tables of the parties' last signs of life and of their absences."""

from piccolo.constraints import Check
from piccolo.table import Table

from core.base.field_types import Party
from core.storage import columns
from core.storage.personal import Erase, Personal

ABSENCE = Personal("when a party of a session gave no sign of life", "400 days", Erase.KEEP, exported=True)


class SessionPresence(Table, tablename="session_presence", db=columns.ENGINE):
    """The last signs of life of both parties of a session in `active` or `expired`, in service time.

    No index may use the times, so that the updates stay heap-only. A party without a sign has null.
    """

    session_id = columns.identifier()  # not a foreign key: each row is made from its session
    customer_seen_at = columns.moment()
    mitra_seen_at = columns.moment()


class SessionAbsence(Table, tablename="session_absences", db=columns.ENGINE):
    """One absence of a party during a session. It is open while `ended_at` is null."""

    id = columns.identifier()
    session_id = columns.reference("ChatSession", owner=True)
    user_type = columns.string(10)
    since = columns.moment(null=False, personal=ABSENCE)  # the last sign of life, or from when a silence counted
    declared_at = columns.moment(null=False, personal=ABSENCE)
    ended_at = columns.moment(personal=ABSENCE)
    returned = columns.flag(personal=ABSENCE)  # False if the session ended first

    known_user_type = columns.words("user_type", Party)
    declared_after_silence = Check("declared_at > since")
    ended_after_silence = Check("ended_at > since")
    returned_has_ended = Check("NOT returned OR ended_at IS NOT NULL")
