"""The route of the ledger audit."""

from litestar import get

from api.auth import operators
from core.reads.ledger.audit import LedgerAudit, audit_for_operator
from core.runtime import Runtime


@get("/internal/ledger/audit", **operators("payments"))
async def audit(runtime: Runtime) -> LedgerAudit:
    """Run the ledger audit.

    It checks the whole database and can take minutes.
    """
    return await audit_for_operator(runtime)


ROUTES = [audit]
