"""The tables of the audits: their results, and the violations that operators have accepted."""

from piccolo.constraints import Check, Unique
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


class AcceptedViolation(Table, tablename="accepted_violations", db=columns.ENGINE):
    """A row that breaks a rule for a known cause. Audits do not count it while it breaks the rule in the same way."""

    id = columns.identifier()
    rule = columns.string(200, personal=None)
    object_id = columns.string(200, personal=None)  # of the row that breaks the rule
    detail = columns.string(2000, personal=None)  # in which way, as the audit says it
    reason = columns.string(1000, personal=None)  # the operator's words about the cause, which name no person
    operator_id = columns.plain_id(null=False)  # who has accepted it
    accepted_at = columns.moment(null=False)

    once = Unique(["rule", "object_id", "detail"])
