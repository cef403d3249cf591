"""Write the audit row for personal data that an operator is about to see. If that fails, the data is not returned.

The only write of a read (docs/product.md#audit-log).
"""

from collections.abc import Mapping, Sequence

from core.accounts.operators import store as operators
from core.base.actor import Actor
from core.runtime.container import Runtime


async def one(runtime: Runtime, actor: Actor, *, object_type: str, object_id: str, fields: list[str]) -> None:
    """Record that the operator reads these fields of one object. Raises Unavailable."""
    await _note(runtime, actor, object_type, object_id, {"fields": fields})


async def several(runtime: Runtime, actor: Actor, *, object_type: str, ids: Sequence[str], fields: list[str]) -> None:
    """Record in one row that the operator reads these fields of several objects. Without objects no row is written.

    Raises Unavailable.
    """
    if ids:
        await _note(runtime, actor, object_type, operators.LIST, {"fields": fields, "ids": ids})


async def _note(
    runtime: Runtime, actor: Actor, object_type: str, object_id: str, after: Mapping[str, Sequence[str]]
) -> None:
    async with runtime.transaction() as tx:
        await operators.audit(
            tx,
            operator_id=actor.user_id,
            action=f"{object_type}.read",
            object_type=object_type,
            object_id=object_id,
            before=None,
            after=after,
        )
