"""Writes and locking reads of operators, roles and the audit log."""

import datetime as dt
from typing import Any

import attrs

from core.base import ids
from core.base.field_types import OperatorId, RoleId
from core.operators.rules import Permissions
from core.storage import locks
from core.storage.database import Tx
from core.storage.locks import AdvisoryLock
from core.storage.reads import Reader
from core.storage.records import one

LIST = "list"  # object_id of an audit row about several objects; their ids are in `after`
SELECT = """SELECT o.id, o.email, o.display_name, o.role_id, r.name AS role_name, r.permissions, o.password_hash,
    o.password_change_due, o.disabled, o.totp_secret IS NOT NULL AS has_totp, r.require_totp,
    coalesce(jsonb_array_length(o.recovery_codes), 0) AS recovery_codes_left, o.created_at
  FROM control_center_users o JOIN roles r ON r.id = o.role_id"""


@attrs.frozen(kw_only=True)
class Operator:
    """An operator with the permissions of their role."""

    id: OperatorId
    email: str
    display_name: str
    role_id: RoleId
    role_name: str
    permissions: Permissions
    password_hash: str = attrs.field(repr=False)
    password_change_due: bool
    disabled: bool
    has_totp: bool
    require_totp: bool  # from the role
    recovery_codes_left: int
    created_at: dt.datetime

    @property
    def must_enrol(self) -> bool:
        """Whether the role requires a second factor and the operator has not set one up."""
        return self.require_totp and not self.has_totp


async def get(reader: Reader, operator_id: str) -> Operator | None:
    """Read an operator."""
    return one(Operator, await reader.fetchrow(f"{SELECT} WHERE o.id = $1", operator_id))


async def by_email(reader: Reader, email: str) -> Operator | None:
    """Read the operator with this e-mail, ignoring case."""
    return one(Operator, await reader.fetchrow(f"{SELECT} WHERE o.email = $1", email.lower()))


async def lock_by_email(tx: Tx, email: str) -> Operator | None:
    """Lock and read the operator with this e-mail, ignoring case.

    Two statements, so that the second one sees what changed while the first waited for the lock, such as the role.
    """
    await tx.execute("SELECT 1 FROM control_center_users WHERE email = $1 FOR UPDATE", email.lower())
    return await by_email(tx, email)


async def ensure_role(tx: Tx, name: str, permissions: dict[str, str]) -> str:
    """Return the id of the role with this name. Create the role if it does not exist."""
    await tx.execute(
        "INSERT INTO roles (id, name, permissions, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT (name) DO NOTHING",
        ids.new_id(), name, permissions, tx.now,
    )  # fmt: skip
    return str(await tx.fetchval("SELECT id FROM roles WHERE name = $1", name))


async def role_by_name(reader: Reader, name: str) -> str | None:
    """Return the id of the role with this name, None without such a role."""
    found = await reader.fetchval("SELECT id FROM roles WHERE name = $1", name)
    return str(found) if found else None


async def create(
    tx: Tx, *, email: str, display_name: str, role_id: str, password_hash: str, password_change_due: bool
) -> str | None:  # fmt: skip
    """Insert an operator and return the id, None if the e-mail is taken."""
    operator_id = await tx.fetchval(
        """INSERT INTO control_center_users (id, email, display_name, role_id, password_hash, password_change_due, created_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (email) DO NOTHING RETURNING id""",
        ids.new_id(), email.lower(), display_name, role_id, password_hash, password_change_due, tx.now,
    )  # fmt: skip
    return str(operator_id) if operator_id else None


@attrs.frozen(kw_only=True)
class Role:
    """A row of roles."""

    id: RoleId
    name: str
    permissions: Permissions
    require_totp: bool
    created_at: dt.datetime


async def hold_rights(tx: Tx) -> None:
    """Serialise changes of operators and roles, because two at once could together remove the last administrator."""
    await locks.hold(tx, AdvisoryLock.OPERATOR_RIGHTS)


async def role(reader: Reader, role_id: str) -> Role | None:
    """Read a role."""
    return one(
        Role,
        await reader.fetchrow(
            "SELECT id, name, permissions, require_totp, created_at FROM roles WHERE id = $1", role_id
        ),
    )


async def create_role(tx: Tx, *, name: str, permissions: dict[str, str], require_totp: bool) -> str | None:
    """Insert a role and return the id, None if the name is taken."""
    role_id = await tx.fetchval(
        """INSERT INTO roles (id, name, permissions, require_totp, created_at) VALUES ($1, $2, $3, $4, $5)
           ON CONFLICT (name) DO NOTHING RETURNING id""",
        ids.new_id(), name, permissions, require_totp, tx.now,
    )  # fmt: skip
    return str(role_id) if role_id else None


async def update_role(tx: Tx, role_id: str, *, name: str, permissions: dict[str, str], require_totp: bool) -> bool:
    """Change a role. Return False if another role has the name."""
    if await tx.fetchval("SELECT 1 FROM roles WHERE name = $2 AND id <> $1", role_id, name):
        return False
    await tx.execute(
        "UPDATE roles SET name = $2, permissions = $3, require_totp = $4 WHERE id = $1",
        role_id, name, permissions, require_totp,
    )  # fmt: skip
    return True


async def update(
    tx: Tx, operator_id: str, *, email: str, display_name: str, role_id: str, password_hash: str, disabled: bool,
    password_change_due: bool = False,
) -> bool:  # fmt: skip
    """Change an operator. Return False if another operator has the e-mail. A new password ends a lockout.

    `password_change_due` says that another person chose the new password.
    """
    if await tx.fetchval(
        "SELECT 1 FROM control_center_users WHERE email = $2 AND id <> $1", operator_id, email.lower()
    ):
        return False
    await tx.execute(
        """UPDATE control_center_users SET email = $2, display_name = $3, role_id = $4, disabled = $6,
             failed_login_count = CASE WHEN password_hash = $5 THEN failed_login_count ELSE 0 END,
             lockout_until = CASE WHEN password_hash = $5 THEN lockout_until END,
             password_change_due = CASE WHEN password_hash = $5 THEN password_change_due ELSE $7 END, password_hash = $5
           WHERE id = $1""",
        operator_id, email.lower(), display_name, role_id, password_hash, disabled, password_change_due,
    )  # fmt: skip
    return True


async def lock(tx: Tx, operator_id: str) -> Operator | None:
    """Lock and read an operator, in two statements like `lock_by_email`."""
    await tx.execute("SELECT 1 FROM control_center_users WHERE id = $1 FOR UPDATE", operator_id)
    return await get(tx, operator_id)


async def any_administrator(reader: Reader) -> bool:
    """Return whether an enabled operator with a password may do everything."""
    return bool(
        await reader.fetchval(
            """SELECT 1 FROM control_center_users o JOIN roles r ON r.id = o.role_id
               WHERE NOT o.disabled AND o.password_hash <> '' AND r.permissions ->> '*' = 'write' LIMIT 1"""
        )
    )


async def any_operator(reader: Reader) -> bool:
    """Return whether there is any operator."""
    return bool(await reader.fetchval("SELECT 1 FROM control_center_users LIMIT 1"))


async def audit(
    tx: Tx, *, operator_id: str, action: str, object_type: str, object_id: str, before: Any, after: Any
) -> None:
    """Insert the audit row of an operator's write, in the transaction of the write.

    `before` and `after` hold a customer's id and the names of fields, never a phone number, e-mail or name. Text that
    the operator wrote goes under `reason`, which `blank_operator_audit_log` empties when the customer is erased.
    """
    await tx.execute(
        """INSERT INTO operator_audit_log (id, operator_id, action, object_type, object_id, before, after, created_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8)""",
        ids.new_id(), operator_id, action, object_type, object_id, before, after, tx.now,
    )  # fmt: skip
