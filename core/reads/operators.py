"""Reads of operators and roles, for operators with that permission (docs/product.md#operators)."""

import datetime as dt

import attrs

from core.base.errors import NotFound
from core.base.field_types import OperatorId, RoleId
from core.base.pages import Items, Page, cut
from core.operators.rules import Permissions
from core.runtime import Runtime
from core.storage.records import many
from core.transactions import translate_db_errors


@attrs.frozen(kw_only=True)
class OperatorRow:
    """An operator as other operators see them. Until `locked_until`, sign-ins from some or all addresses are
    refused."""

    id: OperatorId
    email: str
    display_name: str
    role_id: RoleId
    role: str
    disabled: bool
    has_password: bool
    has_totp: bool
    locked_until: dt.datetime | None
    created_at: dt.datetime


@attrs.frozen(kw_only=True)
class RoleRow:
    """A role, its permissions, and how many operators have it."""

    id: RoleId
    name: str
    permissions: Permissions
    require_totp: bool
    operator_count: int
    created_at: dt.datetime


OPERATORS = """SELECT o.id, o.email, o.display_name, o.role_id, r.name AS role, o.disabled, o.password_hash <> '' AS has_password,
    o.totp_secret IS NOT NULL AS has_totp,
    greatest(CASE WHEN o.lockout_until > $1 THEN o.lockout_until END,
      (SELECT max(a.lockout_until) FROM operator_sign_in_addresses a
       WHERE a.email_hash = encode(sha256(convert_to(o.email, 'UTF8')), 'hex') AND a.lockout_until > $1)) AS locked_until,
    o.created_at
  FROM control_center_users o JOIN roles r ON r.id = o.role_id"""
ROLES = """SELECT r.id, r.name, r.permissions, r.require_totp, (SELECT count(*)::int FROM control_center_users o WHERE o.role_id = r.id) AS operator_count,
    r.created_at FROM roles r"""


async def operators(runtime: Runtime, page: Page) -> Items[OperatorRow]:
    """List operators, newest first."""
    with translate_db_errors():
        rows = await runtime.db.fetch(
            f"""{OPERATORS} WHERE $2::timestamptz IS NULL OR (o.created_at, o.id) < ($2, $3::uuid)
                ORDER BY o.created_at DESC, o.id DESC LIMIT $4""",
            runtime.now(), page.before_at, page.before_id, page.limit + 1,
        )  # fmt: skip
    return cut(many(OperatorRow, rows), page, at="created_at")


async def operator(runtime: Runtime, operator_id: str) -> OperatorRow:
    """Return one operator.

    Raises NotFound for an unknown id.
    """
    with translate_db_errors():
        rows = many(OperatorRow, await runtime.db.fetch(f"{OPERATORS} WHERE o.id = $2", runtime.now(), operator_id))
    if not rows:
        raise NotFound
    return rows[0]


async def roles(runtime: Runtime, page: Page) -> Items[RoleRow]:
    """List roles, newest first."""
    with translate_db_errors():
        rows = await runtime.db.fetch(
            f"""{ROLES} WHERE $1::timestamptz IS NULL OR (r.created_at, r.id) < ($1, $2::uuid)
                ORDER BY r.created_at DESC, r.id DESC LIMIT $3""",
            page.before_at, page.before_id, page.limit + 1,
        )  # fmt: skip
    return cut(many(RoleRow, rows), page, at="created_at")


async def role(runtime: Runtime, role_id: str) -> RoleRow:
    """Return one role.

    Raises NotFound for an unknown id.
    """
    with translate_db_errors():
        rows = many(RoleRow, await runtime.db.fetch(f"{ROLES} WHERE r.id = $1", role_id))
    if not rows:
        raise NotFound
    return rows[0]
