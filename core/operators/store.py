"""Writes and locking reads of operators, roles, failed logins and the audit log."""

import datetime as dt
import hashlib
from typing import Any

import attrs

from core.base import ids
from core.storage.database import Tx
from core.storage.reads import Reader
from core.storage.records import one

SELECT = """SELECT o.id, o.email, o.display_name, o.role_id, r.name AS role_name, r.permissions, o.password_hash,
    o.failed_login_count, o.lockout_until, o.disabled, o.created_at
  FROM control_center_users o JOIN roles r ON r.id = o.role_id"""


@attrs.frozen(kw_only=True)
class Operator:
    """An operator with the permissions of the role."""

    id: str
    email: str
    display_name: str
    role_id: str
    role_name: str
    permissions: dict[str, str]
    password_hash: str = attrs.field(repr=False)
    failed_login_count: int
    lockout_until: dt.datetime | None
    disabled: bool
    created_at: dt.datetime


async def get(reader: Reader, operator_id: str) -> Operator | None:
    """Read an operator."""
    return one(Operator, await reader.fetchrow(f"{SELECT} WHERE o.id = $1", operator_id))


async def lock_by_email(tx: Tx, email: str) -> Operator | None:
    """Lock and read the operator with this e-mail, in any case of letters.

    In two statements: what a wait for the lock has changed (her role) is seen by the one after it.
    """
    found = await tx.fetchval("SELECT id FROM control_center_users WHERE email = $1 FOR UPDATE", email.lower())
    return None if found is None else await get(tx, found)


async def set_failures(tx: Tx, operator_id: str, *, count: int, lockout_until: dt.datetime | None) -> None:
    """Note failed logins; 0 and None after a good one."""
    await tx.execute(
        "UPDATE control_center_users SET failed_login_count = $2, lockout_until = $3 WHERE id = $1",
        operator_id, count, lockout_until,
    )  # fmt: skip


def _hash(email: str) -> str:
    return hashlib.sha256(email.lower().encode("utf-8", "surrogatepass")).hexdigest()


async def lock_unknown(tx: Tx, email: str) -> tuple[int, dt.datetime | None]:
    """Return (failed logins, lockout) of an e-mail that is nobody's, locked."""
    row = await tx.fetchrow(
        """INSERT INTO unknown_operator_logins (email_hash, failed_login_count, updated_at) VALUES ($1, 0, $2)
           ON CONFLICT (email_hash) DO UPDATE SET updated_at = excluded.updated_at
           RETURNING failed_login_count, lockout_until""",
        _hash(email), tx.now,
    )  # fmt: skip
    return row["failed_login_count"], row["lockout_until"]


async def set_unknown_failures(tx: Tx, email: str, *, count: int, lockout_until: dt.datetime | None) -> None:
    """Note failed logins of an e-mail that is nobody's."""
    await tx.execute(
        "UPDATE unknown_operator_logins SET failed_login_count = $2, lockout_until = $3 WHERE email_hash = $1",
        _hash(email), count, lockout_until,
    )  # fmt: skip


async def purge_unknown(tx: Tx, *, before: dt.datetime, limit: int) -> int:
    """Forget e-mails that are nobody's, and that nobody has tried since; return how many."""
    return await tx.execute(
        """DELETE FROM unknown_operator_logins WHERE email_hash = ANY (ARRAY(SELECT email_hash FROM unknown_operator_logins
             WHERE updated_at < $1 AND (lockout_until IS NULL OR lockout_until < $2) LIMIT $3 FOR UPDATE SKIP LOCKED))""",
        before, tx.now, limit,
    )  # fmt: skip


async def ensure_role(tx: Tx, name: str, permissions: dict[str, str]) -> str:
    """Return the id of the role, made if there is none of this name."""
    await tx.execute(
        "INSERT INTO roles (id, name, permissions, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT (name) DO NOTHING",
        ids.new_id(), name, permissions, tx.now,
    )  # fmt: skip
    return str(await tx.fetchval("SELECT id FROM roles WHERE name = $1", name))


async def role_by_name(reader: Reader, name: str) -> str | None:
    """Return a role's id."""
    found = await reader.fetchval("SELECT id FROM roles WHERE name = $1", name)
    return str(found) if found else None


async def create(tx: Tx, *, email: str, display_name: str, role_id: str, password_hash: str) -> str | None:
    """Insert an operator; None when the e-mail is taken."""
    operator_id = await tx.fetchval(
        """INSERT INTO control_center_users (id, email, display_name, role_id, password_hash, created_at)
           VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (email) DO NOTHING RETURNING id""",
        ids.new_id(), email.lower(), display_name, role_id, password_hash, tx.now,
    )  # fmt: skip
    return str(operator_id) if operator_id else None


@attrs.frozen(kw_only=True)
class Role:
    """A row of roles."""

    id: str
    name: str
    permissions: dict[str, str]
    created_at: dt.datetime


async def hold_rights(tx: Tx) -> None:
    """Let changes of operators and roles be judged one after the other: two of them together must not end the last right."""
    await tx.execute("SELECT pg_advisory_xact_lock(6, 0)")


async def role(reader: Reader, role_id: str) -> Role | None:
    """Read a role."""
    return one(
        Role, await reader.fetchrow("SELECT id, name, permissions, created_at FROM roles WHERE id = $1", role_id)
    )


async def create_role(tx: Tx, *, name: str, permissions: dict[str, str]) -> str | None:
    """Insert a role; None when the name is taken."""
    role_id = await tx.fetchval(
        "INSERT INTO roles (id, name, permissions, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT (name) DO NOTHING RETURNING id",
        ids.new_id(), name, permissions, tx.now,
    )  # fmt: skip
    return str(role_id) if role_id else None


async def update_role(tx: Tx, role_id: str, *, name: str, permissions: dict[str, str]) -> bool:
    """Change a role; False when the name is another's."""
    if await tx.fetchval("SELECT 1 FROM roles WHERE name = $2 AND id <> $1", role_id, name):
        return False
    await tx.execute("UPDATE roles SET name = $2, permissions = $3 WHERE id = $1", role_id, name, permissions)
    return True


async def update(
    tx: Tx, operator_id: str, *, email: str, display_name: str, role_id: str, password_hash: str, disabled: bool
) -> bool:  # fmt: skip
    """Change an operator; False when the e-mail is another's. A new password ends a lockout."""
    if await tx.fetchval(
        "SELECT 1 FROM control_center_users WHERE email = $2 AND id <> $1", operator_id, email.lower()
    ):
        return False
    await tx.execute(
        """UPDATE control_center_users SET email = $2, display_name = $3, role_id = $4, disabled = $6,
             failed_login_count = CASE WHEN password_hash = $5 THEN failed_login_count ELSE 0 END,
             lockout_until = CASE WHEN password_hash = $5 THEN lockout_until END, password_hash = $5 WHERE id = $1""",
        operator_id, email.lower(), display_name, role_id, password_hash, disabled,
    )  # fmt: skip
    return True


async def lock(tx: Tx, operator_id: str) -> Operator | None:
    """Lock and read an operator, in two statements as `lock_by_email`."""
    await tx.execute("SELECT 1 FROM control_center_users WHERE id = $1 FOR UPDATE", operator_id)
    return await get(tx, operator_id)


async def any_administrator(reader: Reader) -> bool:
    """Whether somebody who may do everything can sign in."""
    return bool(
        await reader.fetchval(
            """SELECT 1 FROM control_center_users o JOIN roles r ON r.id = o.role_id
               WHERE NOT o.disabled AND o.password_hash <> '' AND r.permissions ->> '*' = 'write' LIMIT 1"""
        )
    )


async def any_operator(reader: Reader) -> bool:
    """Whether there is an operator at all."""
    return bool(await reader.fetchval("SELECT 1 FROM control_center_users LIMIT 1"))


async def audit(
    tx: Tx, *, operator_id: str, action: str, object_type: str, object_id: str, before: Any, after: Any
) -> None:
    """Note what an operator did, in the transaction that did it."""
    await tx.execute(
        """INSERT INTO operator_audit_log (id, operator_id, action, object_type, object_id, before, after, created_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8)""",
        ids.new_id(), operator_id, action, object_type, object_id, before, after, tx.now,
    )  # fmt: skip
