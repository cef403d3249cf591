"""Writes and reads of operators' roles."""

import datetime as dt

import attrs

from core.accounts.operators.rules import Permissions
from core.accounts.operators.tables import Role as Roles
from core.base import ids
from core.base.field_types import RoleId
from core.storage.statements import columns_of, insert, p, statement
from core.storage.transaction import Reader, Tx


@attrs.frozen(kw_only=True)
class Role:
    """A row of roles."""

    id: RoleId
    name: str
    permissions: Permissions
    require_totp: bool
    created_at: dt.datetime


GET = statement(Roles.select(*columns_of(Roles, Role)).where(Roles.id == p.id), Role)
BY_NAME = statement(Roles.select(Roles.id).where(Roles.name == p.name))
OTHER_WITH_NAME = statement(Roles.select(Roles.id).where(Roles.name == p.name, Roles.id != p.id))
CREATE = statement(
    insert(Roles, "id name permissions require_totp created_at")
    .on_conflict(Roles.name, "DO NOTHING")
    .returning(Roles.id)
)
UPDATE = statement(
    Roles.update(name=p.name, permissions=p.permissions, require_totp=p.require_totp).where(Roles.id == p.id)
)


async def get(reader: Reader, role_id: str) -> Role | None:
    """Read a role."""
    return await GET.first(reader, id=role_id)


async def ensure(tx: Tx, name: str, permissions: dict[str, str]) -> str:
    """Return the id of the role with this name. Create the role if it does not exist."""
    await create(tx, name=name, permissions=permissions, require_totp=False)
    found = await by_name(tx, name)
    assert found is not None
    return found


async def by_name(reader: Reader, name: str) -> str | None:
    """Return the id of the role with this name, None without such a role."""
    return await BY_NAME.value(reader, name=name)


async def create(tx: Tx, *, name: str, permissions: dict[str, str], require_totp: bool) -> str | None:
    """Insert a role and return the id, None if the name is taken."""
    return await CREATE.value(
        tx, id=ids.new_id(), name=name, permissions=permissions, require_totp=require_totp, created_at=tx.now
    )


async def update(tx: Tx, role_id: str, *, name: str, permissions: dict[str, str], require_totp: bool) -> bool:
    """Change a role. Return False if another role has the name."""
    if await OTHER_WITH_NAME.value(tx, id=role_id, name=name):
        return False
    await UPDATE.execute(tx, id=role_id, name=name, permissions=permissions, require_totp=require_totp)
    return True
