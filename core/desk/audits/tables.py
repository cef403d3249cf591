"""The table of the audits' results."""

from piccolo.constraints import Check
from piccolo.table import Table

from core.desk.audits.rules import Depth
from core.storage import columns


class LedgerAuditResult(Table, tablename="ledger_audit_results", db=columns.ENGINE):
    """What the last audit found about one rule. Times are service time."""

    rule = columns.string_key(200, personal=None)
    violations = columns.number()
    first_ids = columns.texts(null=False, personal=None)  # of some rows that break the rule
    depth = columns.string(8)  # of the audit
    checked_at = columns.moment(null=False)
    since_at = columns.moment()  # of the first audit that found violations, without one since then that found none

    known_depth = columns.words("depth", Depth)
    since_while_broken = Check("(violations > 0) = (since_at IS NOT NULL)")
