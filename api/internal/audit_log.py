"""Routes for the operators' audit log."""

from typing import Annotated

from litestar import get
from litestar.params import QueryParameter

from api.auth import operators
from api.parameters import query_id, query_time
from core.base.actor import Actor
from core.base.pages import ReportItems, read_page
from core.desk import audit_log as desk_audit_log
from core.desk.audit_log import AuditEntry, AuditFilter
from core.runtime.container import Runtime


@get("/internal/audit-log", **operators("audit"))
async def audit_log(
    runtime: Runtime,
    actor: Actor,
    operator_id: str | None = None,
    action: str | None = None,
    object_type: str | None = None,
    object_id: str | None = None,
    since: Annotated[str | None, QueryParameter(name="from")] = None,
    to: str | None = None,
    cursor: str | None = None,
    limit: int | None = None,
) -> ReportItems[AuditEntry]:
    """List what operators changed and which personal data they read, newest first."""
    which = AuditFilter(
        operator_id=query_id("operator_id", operator_id),
        action=action,
        object_type=object_type,
        object_id=object_id,
        since=query_time("from", since),
        until=query_time("to", to),
    )
    return await desk_audit_log.audit_log(runtime, actor, read_page(cursor, limit), which)


ROUTES = [audit_log]
