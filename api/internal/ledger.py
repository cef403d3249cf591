"""The route of the ledger audit."""

from litestar import get

from api.auth import operators
from core.reads import ledger
from core.runtime import Runtime


@get("/internal/ledger/audit", **operators("payments"))
async def audit(runtime: Runtime) -> ledger.Audit:
    """Run the ledger audit.

    It checks the whole database and can take minutes.
    """
    return await ledger.audit_for_operator(runtime)


ROUTES = [audit]
