"""The routes of the ledger audit."""

from litestar import get

from api.auth import operators
from core.desk.audits.run import BrokenRules
from core.desk.audits.run import broken_rules as read_broken_rules
from core.desk.ledger.audit import LedgerAudit, audit_for_operator
from core.runtime.container import Runtime


@get("/internal/ledger/audit", **operators("payments"))
async def audit(runtime: Runtime) -> LedgerAudit:
    """Run the ledger audit.

    It checks the whole database and can take minutes.
    """
    return await audit_for_operator(runtime)


@get("/internal/ledger/broken-rules", **operators("payments"))
async def broken_rules(runtime: Runtime) -> BrokenRules:
    """Return the rules that rows break, as the service's own audits last found them.

    Rules about open work are checked every minute, all rules every night. `first_ids` has up to five of the rows.
    """
    return await read_broken_rules(runtime)


ROUTES = [audit, broken_rules]
