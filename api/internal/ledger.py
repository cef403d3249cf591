"""The books (contract 8)."""

from litestar import get

from api.auth import operators
from core.reads import ledger
from core.runtime import Runtime


@get("/internal/ledger/audit", **operators("payments"))
async def audit(runtime: Runtime) -> ledger.Audit:
    """Check the books."""
    return await ledger.audit_for_operator(runtime)


ROUTES = [audit]
