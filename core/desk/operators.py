"""Reads of operators and roles, for operators with that permission (docs/product.md#operators)."""

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from core.accounts.operators.rules import Permissions, locks_by_address, requires_totp
from core.base.errors import NotFound
from core.base.field_types import OperatorId, RoleId
from core.base.pages import Items, Page, cut
from core.runtime.container import Runtime
from core.runtime.transactions import translate_db_errors
from core.storage import sql_files
from core.storage.records import as_dict, many


@attrs.frozen(kw_only=True)
class OperatorForOperators:
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
class RoleView:
    """A role, its permissions, and how many operators have it.

    `require_totp` is the role's own setting. `totp_required`: its operators need a second factor, because of the
    setting or, in production, of the permissions.
    """

    id: RoleId
    name: str
    permissions: Permissions
    require_totp: bool
    totp_required: bool
    operator_count: int
    created_at: dt.datetime


SQL = sql_files.load(__file__)
OPERATOR = f"""{SQL["operators"]}
WHERE o.id = $3"""
OPERATORS = f"""{SQL["operators"]}
WHERE $3::timestamptz IS NULL OR (o.created_at, o.id) < ($3, $4::uuid)
ORDER BY o.created_at DESC, o.id DESC
LIMIT $5"""
ROLE = f"""{SQL["roles"]}
WHERE r.id = $1"""
ROLES = f"""{SQL["roles"]}
WHERE $1::timestamptz IS NULL OR (r.created_at, r.id) < ($1, $2::uuid)
ORDER BY r.created_at DESC, r.id DESC
LIMIT $3"""


async def operators(runtime: Runtime, page: Page) -> Items[OperatorForOperators]:
    """List operators, newest first."""
    with translate_db_errors():
        rows = await runtime.db.fetch(
            OPERATORS,
            runtime.now(),
            locks_by_address(runtime.config),
            page.before_at,
            page.before_id,
            page.limit + 1,
        )
    return cut(many(OperatorForOperators, rows), page, at="created_at")


async def operator(runtime: Runtime, operator_id: str) -> OperatorForOperators:
    """Return one operator.

    Raises NotFound for an unknown id.
    """
    with translate_db_errors():
        found = await runtime.db.fetch(OPERATOR, runtime.now(), locks_by_address(runtime.config), operator_id)
    rows = many(OperatorForOperators, found)
    if not rows:
        raise NotFound
    return rows[0]


async def roles(runtime: Runtime, page: Page) -> Items[RoleView]:
    """List roles, newest first."""
    with translate_db_errors():
        rows = await runtime.db.fetch(
            ROLES,
            page.before_at,
            page.before_id,
            page.limit + 1,
        )
    return cut(_role_views(runtime, rows), page, at="created_at")


async def role(runtime: Runtime, role_id: str) -> RoleView:
    """Return one role.

    Raises NotFound for an unknown id.
    """
    with translate_db_errors():
        rows = _role_views(runtime, await runtime.db.fetch(ROLE, role_id))
    if not rows:
        raise NotFound
    return rows[0]


def _role_views(runtime: Runtime, rows: Iterable[Mapping[str, Any]]) -> list[RoleView]:
    production = runtime.settings.production
    return [
        RoleView(
            **as_dict(row),
            totp_required=requires_totp(row["permissions"], by_role=row["require_totp"], production=production),
        )
        for row in rows
    ]
