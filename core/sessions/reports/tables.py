"""The table of reports about sessions."""

from piccolo.constraints import Check, Unique
from piccolo.table import Table

from core.base.field_types import Party
from core.sessions.reports.rules import Reason, Resolution
from core.storage import columns
from core.storage.personal import Erase, Personal

KEPT = "`retention_messages_days` after it is resolved (0: always)"
MESSAGE = Personal("what a party of a session reported", KEPT, Erase.NULL, exported=True)
NOTE = Personal("what an operator wrote about a report", KEPT, Erase.NULL)
CASE = Personal("that a session was reported, and what followed", "always", Erase.KEEP, exported=True)


class SessionReport(Table, tablename="session_reports", db=columns.ENGINE):
    """A report of one party of a session about the other one. It is open while `resolution` is null."""

    id = columns.identifier()
    session_id = columns.reference("ChatSession", owner=True)
    reporter = columns.string(10, personal=CASE)
    reason = columns.string(20, personal=CASE)
    message = columns.text(null=True, personal=MESSAGE)
    resolution = columns.string(20, null=True, personal=CASE)
    note = columns.text(null=True, personal=NOTE)
    resolved_by = columns.plain_id()
    resolved_at = columns.moment()
    created_at = columns.created()

    once_a_party = Unique(["session_id", "reporter"])
    known_reporter = columns.words("reporter", Party)
    known_reason = columns.words("reason", Reason)
    known_resolution = columns.words("resolution", Resolution)
    resolved_is_whole = Check(
        "(resolution IS NULL) = (resolved_at IS NULL) AND (resolution IS NULL) = (resolved_by IS NULL)"
    )
    open_has_no_note = Check("resolution IS NOT NULL OR note IS NULL")
