"""The two rules of every change of operators and roles, and the audit row of such a change (docs/product.md#roles).

Operators can't give rights that they don't have, and the last administrator stays.
"""

from typing import Any

from core.accounts.operators import rules
from core.accounts.operators import store as operators
from core.accounts.operators.rules import LastAdministrator
from core.base.actor import Actor
from core.base.errors import Forbidden
from core.storage.transaction import Tx


async def hold_rights(tx: Tx, actor: Actor) -> dict[str, str]:
    """Lock all rights, and return the caller's as they are now. They may have changed since the request arrived.

    Raises Forbidden.
    """
    await operators.hold_rights(tx)
    caller = await operators.get(tx, actor.user_id)
    if caller is None or caller.disabled:
        raise Forbidden
    rules.require(caller.permissions, "operators", "write")
    return caller.permissions


async def check_administrator_stays(tx: Tx) -> None:
    """Check that an enabled operator with all rights is left. Raises LastAdministrator."""
    if not await operators.any_administrator(tx):
        raise LastAdministrator


async def audit(tx: Tx, actor: Actor, action: str, object_id: str, before: Any, after: Any) -> None:
    """Store the audit row of a change of an operator or a role. `before` and `after` are shown as they are."""
    await operators.audit(
        tx,
        operator_id=actor.user_id,
        action=action,
        object_type="role" if action.startswith("role") else "operator",
        object_id=object_id,
        before=before,
        after=after,
    )
