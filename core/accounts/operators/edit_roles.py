"""Add and change roles (docs/product.md#roles). Each write leaves an audit row."""

from typing import Any

import attrs

from core.accounts.operators import rights as operator_rights
from core.accounts.operators import roles, rules, totp
from core.accounts.operators import store as operators
from core.accounts.operators.roles import Role
from core.accounts.operators.rules import RoleNameTaken
from core.base import names
from core.base.actor import Actor
from core.base.errors import NotFound
from core.runtime.container import Runtime
from core.storage.transaction import Tx


@attrs.frozen(kw_only=True)
class RoleChange:
    """The new values of a role; None leaves a field unchanged."""

    name: str | None = None
    permissions: dict[str, str] | None = None
    require_totp: bool | None = None


async def add_role(
    runtime: Runtime, actor: Actor, *, name: str, permissions: dict[str, str], require_totp: bool
) -> str:
    """Add a role and return its id. Raises ValidationFailed, Forbidden, RoleNameTaken."""
    checked, clean = rules.check_permissions(permissions), names.checked(name, field="name")
    async with runtime.transaction() as tx:
        rules.may_grant(await operator_rights.hold_rights(tx, actor), checked)
        role_id = await roles.create(tx, name=clean, permissions=checked, require_totp=require_totp)
        if role_id is None:
            raise RoleNameTaken
        await operator_rights.audit(
            tx,
            actor,
            "role.created",
            role_id,
            None,
            {"name": clean, "permissions": checked, "require_totp": require_totp},
        )
    return role_id


async def change_role(runtime: Runtime, actor: Actor, *, role_id: str, change: RoleChange) -> None:
    """Change a role for all operators who have it, with immediate effect.

    Raises NotFound, ValidationFailed, Forbidden, RoleNameTaken, LastAdministrator, TotpNotEnrolled.
    """
    checked = None if change.permissions is None else rules.check_permissions(change.permissions)
    name = None if change.name is None else names.checked(change.name, field="name")
    async with runtime.transaction() as tx:
        rights = await operator_rights.hold_rights(tx, actor)
        before = await roles.get(tx, role_id)
        if before is None:
            raise NotFound
        rules.may_grant(rights, before.permissions)
        after = attrs.evolve(
            before,
            name=name or before.name,
            permissions=before.permissions if checked is None else checked,
            require_totp=before.require_totp if change.require_totp is None else change.require_totp,
        )
        rules.may_grant(rights, after.permissions)
        if after.require_totp and not before.require_totp:
            await _may_require_totp(tx, actor, role_id)
        if not await roles.update(
            tx, role_id, name=after.name, permissions=after.permissions, require_totp=after.require_totp
        ):
            raise RoleNameTaken
        await operator_rights.check_administrator_stays(tx)
        await operator_rights.audit(tx, actor, "role.changed", role_id, _seen_role(before), _seen_role(after))


def _seen_role(role: Role) -> dict[str, Any]:
    return {"name": role.name, "permissions": role.permissions, "require_totp": role.require_totp}


async def _may_require_totp(tx: Tx, actor: Actor, role_id: str) -> None:
    """Keep an operator from locking out themselves with a rule of the role that they have. Raises TotpNotEnrolled."""
    caller = await operators.get(tx, actor.user_id)
    if caller is not None and caller.role_id == role_id and not caller.has_totp:
        raise totp.TotpNotEnrolled
