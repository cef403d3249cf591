"""Routes for operators and roles."""

from typing import Any

import attrs
from attrs.validators import max_len, optional
from litestar import Request, get, patch, post

from api.auth import client_ip, operators
from api.parameters import path_id
from api.request_bodies import Body, JsonObject, no_nulls, structure, text
from core.accounts.operators import edit as operator_edit
from core.accounts.operators.edit import OperatorChange, RoleChange
from core.accounts.operators.rules import (
    AREAS,
    AccountLocked,
    EmailTaken,
    LastAdministrator,
    LoginInvalid,
    Permissions,
    RoleNameTaken,
)
from core.accounts.operators.totp import TotpNotEnrolled
from core.base.actor import Actor
from core.base.field_types import RoleId
from core.base.pages import Items, read_page
from core.desk import people
from core.runtime.container import Runtime

MAX_PERMISSIONS = len(AREAS) + 1  # each area, and "*"


@attrs.frozen(kw_only=True)
class OperatorBody:
    """A new operator. Without a password they can't sign in yet."""

    email: str = text(3, 255)
    display_name: str = text(1, 400)
    role_id: RoleId
    password: str | None = attrs.field(default=None, repr=False)
    disabled: bool = False


@attrs.frozen(kw_only=True)
class OperatorPatch:
    """Changes of an operator; absent fields stay unchanged. For a new password of your own, `current_password` is
    needed."""

    email: str | None = None
    display_name: str | None = None
    role_id: RoleId | None = None
    password: str | None = attrs.field(default=None, repr=False)
    current_password: str | None = attrs.field(default=None, validator=optional(max_len(1024)), repr=False)
    disabled: bool | None = None


@attrs.frozen(kw_only=True)
class RoleBody:
    """A new role. `permissions` is area to `read` or `write`; `{"*": "write"}` is the administrator."""

    name: str = text(1, 400)
    permissions: Permissions = attrs.field(validator=max_len(MAX_PERMISSIONS))
    require_totp: bool = False


@attrs.frozen(kw_only=True)
class RolePatch:
    """Changes of a role, for every operator who has it; absent fields stay unchanged."""

    name: str | None = None
    permissions: Permissions | None = attrs.field(default=None, validator=optional(max_len(MAX_PERMISSIONS)))
    require_totp: bool | None = None


@get("/internal/operators", **operators("operators"))
async def list_operators(
    runtime: Runtime, cursor: str | None = None, limit: int | None = None
) -> Items[people.OperatorForOperators]:
    """List operators, newest first."""
    return await people.operators(runtime, read_page(cursor, limit))


@post(
    "/internal/operators",
    status_code=201,
    dto=Body[OperatorBody],
    return_dto=None,
    **operators("operators", "write", EmailTaken, step_up=True),
)
async def add_operator(data: OperatorBody, runtime: Runtime, actor: Actor) -> people.EditedOperator:
    """Add an operator.

    The role must not have more rights than you have. If it requires a second factor, the answer has the one-time code
    with which the operator sets it up.
    """
    wanted = OperatorChange(
        email=data.email,
        display_name=data.display_name,
        role_id=data.role_id,
        password=data.password,
        disabled=data.disabled,
    )
    operator_id, code = await operator_edit.add_operator(runtime, actor, wanted=wanted)
    return await people.edited_operator(runtime, operator_id, code)


@patch(
    "/internal/operators/{operator_id:str}",
    dto=JsonObject,
    return_dto=None,
    body=OperatorPatch,
    **operators("operators", "write", EmailTaken, LastAdministrator, LoginInvalid, AccountLocked, step_up=True),
)
async def change_operator(
    operator_id: str, data: dict[str, Any], request: Request[Any, Any, Any], runtime: Runtime, actor: Actor
) -> people.EditedOperator:
    """Change an operator.

    An operator who is disabled or gets a new password is signed out everywhere. If the new role is the first one that
    requires a second factor and the operator has none, the answer has a one-time code to set it up.
    """
    found = path_id(operator_id)
    no_nulls(data)
    body = structure(data, OperatorPatch)
    change = OperatorChange(**{field.name: getattr(body, field.name) for field in attrs.fields(OperatorPatch)})
    address = client_ip(request)
    code = await operator_edit.change_operator(runtime, actor, operator_id=found, change=change, ip_address=address)
    return await people.edited_operator(runtime, found, code)


@get("/internal/roles", **operators("operators"))
async def list_roles(runtime: Runtime, cursor: str | None = None, limit: int | None = None) -> Items[people.RoleView]:
    """List roles, newest first."""
    return await people.roles(runtime, read_page(cursor, limit))


@post(
    "/internal/roles",
    status_code=201,
    dto=Body[RoleBody],
    return_dto=None,
    **operators("operators", "write", RoleNameTaken, step_up=True),
)
async def add_role(data: RoleBody, runtime: Runtime, actor: Actor) -> people.RoleView:
    """Add a role.

    It must not have more rights than you have.
    """
    role_id = await operator_edit.add_role(
        runtime, actor, name=data.name, permissions=data.permissions, require_totp=data.require_totp
    )
    return await people.role(runtime, role_id)


@patch(
    "/internal/roles/{role_id:str}",
    dto=JsonObject,
    return_dto=None,
    body=RolePatch,
    **operators("operators", "write", RoleNameTaken, LastAdministrator, TotpNotEnrolled, step_up=True),
)
async def change_role(role_id: str, data: dict[str, Any], runtime: Runtime, actor: Actor) -> people.EditedRole:
    """Change a role.

    The change takes effect at once for all operators who have the role. If it begins to require a second factor, the
    answer has a one-time code for each of them who has none.
    """
    found = path_id(role_id)
    no_nulls(data)
    body = structure(data, RolePatch)
    change = RoleChange(name=body.name, permissions=body.permissions, require_totp=body.require_totp)
    codes = await operator_edit.change_role(runtime, actor, role_id=found, change=change)
    return await people.edited_role(runtime, found, codes)


ROUTES = [list_operators, add_operator, change_operator, list_roles, add_role, change_role]
