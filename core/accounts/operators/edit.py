"""Add and change operators and roles, and change an operator's password (docs/product.md#roles).

Each write leaves an audit row. Operators can't give rights that they don't have, and the last administrator stays.
"""

from typing import Any

import attrs

from core.accounts.logins import sign_off
from core.accounts.logins import store as logins
from core.accounts.operators import lockout, roles, rules, second_factor, totp
from core.accounts.operators import store as operators
from core.accounts.operators.roles import Role
from core.accounts.operators.rules import EmailTaken, LastAdministrator, LoginInvalid, RoleNameTaken
from core.accounts.operators.store import Operator
from core.base import field_messages, names
from core.base.actor import Actor
from core.base.errors import Forbidden, NotFound, ValidationFailed
from core.base.field_types import OperatorId
from core.base.languages import Text
from core.runtime.container import Runtime
from core.security import passwords
from core.storage.transaction import Tx


@attrs.frozen(kw_only=True)
class EnrolmentCode:
    """The one-time code with which an operator sets up the second factor that they now need. It is not shown again."""

    operator_id: OperatorId
    enrolment_code: str = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class OperatorChange:
    """The new values of an operator; None leaves a field unchanged."""

    email: str | None = None
    display_name: str | None = None
    role_id: str | None = None
    password: str | None = attrs.field(default=None, repr=False)
    current_password: str | None = attrs.field(default=None, repr=False)
    disabled: bool | None = None


def _email(text: str) -> str:
    email = text.strip().lower()
    if not 3 <= len(email) <= 255 or "@" not in email or "\0" in email or any(map(str.isspace, email)):
        raise ValidationFailed.of(
            "email",
            field_messages.EMAIL,
        )
    return email


async def _role(tx: Tx, rights: dict[str, str], role_id: str) -> Role:
    """Return a role that an operator with these rights may give. Raises ValidationFailed, Forbidden."""
    role = await roles.get(tx, role_id)
    if role is None:
        raise ValidationFailed.of("role_id", Text(en="must be an existing role", id="harus berupa peran yang ada"))
    rules.may_grant(rights, role.permissions)
    return role


def _seen(operator: Operator) -> dict[str, Any]:
    return {
        "email": operator.email,
        "display_name": operator.display_name,
        "role": operator.role_name,
        "disabled": operator.disabled,
    }


async def add_operator(runtime: Runtime, actor: Actor, *, wanted: OperatorChange) -> tuple[str, str | None]:
    """Add an operator. Return the id, and an enrolment code if they need a second factor.

    Without a password they can't sign in yet.

    Raises ValidationFailed, Forbidden, EmailTaken.
    """
    if wanted.email is None or wanted.display_name is None or wanted.role_id is None:
        raise ValidationFailed.of(
            "email", Text(en="e-mail, name and role are required", id="e-mail, nama dan peran wajib diisi")
        )
    email, name = _email(wanted.email), names.checked(wanted.display_name)
    if wanted.password is not None:
        passwords.check_new(wanted.password)
    hashed = "" if wanted.password is None else await runtime.passwords.make(wanted.password)
    async with runtime.transaction() as tx:
        rights = await _hold_rights(tx, actor)
        role = await _role(tx, rights, wanted.role_id)
        operator_id = await operators.create(
            tx,
            email=email,
            display_name=name,
            role_id=role.id,
            password_hash=hashed,
            password_change_due=wanted.password is not None and runtime.settings.initial_passwords_due,
        )
        if operator_id is None:
            raise EmailTaken
        made = await operators.get(tx, operator_id)
        assert made is not None
        if wanted.disabled:
            await operators.update(
                tx, operator_id, email=email, display_name=name, role_id=role.id, password_hash=hashed, disabled=True
            )
        await _audit(
            tx, actor, "operator.created", operator_id, None, {**_seen(made), "disabled": bool(wanted.disabled)}
        )
        return operator_id, await second_factor.give_code_if_required(runtime, tx, made)


async def _present_password(runtime: Runtime, actor: Actor, change: OperatorChange, ip_address: str) -> str:
    """Check the caller's present password, and return its hash.

    Raises ValidationFailed, LoginInvalid, AccountLocked.
    """
    if change.current_password is None:
        raise ValidationFailed.of("current_password", field_messages.REQUIRED)
    password = change.current_password
    return (await lockout.check_password(runtime, actor, password=password, ip_address=ip_address)).password_hash


async def change_operator(
    runtime: Runtime, actor: Actor, *, operator_id: str, change: OperatorChange, ip_address: str
) -> str | None:
    """Change an operator. If the operator is disabled or gets a new password, they are signed out everywhere.

    Returns an enrolment code if they need a second factor because of their new role and have none, else None.

    A caller who changes their own password gives the present one; a wrong one counts as a failed sign-in. Raises
    NotFound, ValidationFailed, Forbidden, EmailTaken, LastAdministrator, LoginInvalid, AccountLocked.
    """
    own = operator_id == actor.user_id
    email = None if change.email is None else _email(change.email)
    name = None if change.display_name is None else names.checked(change.display_name)
    if change.password is not None:
        passwords.check_new(change.password)
    present = await _present_password(runtime, actor, change, ip_address) if own and change.password else None
    hashed = None if change.password is None else await runtime.passwords.make(change.password)
    async with runtime.transaction() as tx:
        rights = await _hold_rights(tx, actor)
        await logins.lock_all(tx, operator_id)
        before = await operators.lock(tx, operator_id)
        if before is None:
            raise NotFound
        if present is not None and before.password_hash != present:
            raise LoginInvalid  # changed since the check above
        # Changing an operator's password or e-mail lets you sign in as them, so you must already hold all their rights.
        rules.may_grant(rights, before.permissions)
        role_id = before.role_id if change.role_id is None else (await _role(tx, rights, change.role_id)).id
        disabled = before.disabled if change.disabled is None else change.disabled
        kept = await operators.update(
            tx,
            operator_id,
            email=email or before.email,
            display_name=name or before.display_name,
            role_id=role_id,
            password_hash=before.password_hash if hashed is None else hashed,
            disabled=disabled,
            password_change_due=not own and runtime.settings.initial_passwords_due,
        )
        if not kept:
            raise EmailTaken
        await _check_administrator_stays(tx)
        if hashed is not None:
            await lockout.forgive(tx, email or before.email)
        if disabled or hashed is not None:
            await sign_off.revoke(tx, user_id=operator_id)
        after = await operators.get(tx, operator_id)
        assert after is not None
        seen = {**_seen(after), "password_changed": hashed is not None}
        await _audit(tx, actor, "operator.changed", operator_id, _seen(before), seen)
        return await _code_for(runtime, tx, before, after)


async def _code_for(runtime: Runtime, tx: Tx, before: Operator, after: Operator) -> str | None:
    """Return an enrolment code for an operator who needed no second factor `before` and has none; else None."""
    if after.has_totp or before.requires_totp(production=runtime.settings.production):
        return None
    return await second_factor.give_code_if_required(runtime, tx, after)


async def change_password(runtime: Runtime, actor: Actor, *, current: str, new: str, ip_address: str) -> None:
    """Change the caller's own password and sign out their other devices.

    A wrong present password counts as a failed sign-in. A password that another person chose can't be chosen again.
    Raises ValidationFailed, LoginInvalid, AccountLocked, Unavailable.
    """
    passwords.check_new(new, field="new_password")
    before = await lockout.check_password(runtime, actor, password=current, ip_address=ip_address)
    if before.password_change_due and await runtime.passwords.verify(new, before.password_hash):
        raise ValidationFailed.of(
            "new_password",
            Text(en="must differ from the current password", id="harus berbeda dari kata sandi sekarang"),
        )
    hashed = await runtime.passwords.make(new)
    async with runtime.transaction() as tx:
        await logins.lock_all(tx, actor.user_id)
        operator = await operators.lock(tx, actor.user_id)
        if operator is None or operator.password_hash != before.password_hash:
            raise LoginInvalid  # changed since the check above
        await operators.update(
            tx,
            operator.id,
            email=operator.email,
            display_name=operator.display_name,
            role_id=operator.role_id,
            password_hash=hashed,
            disabled=operator.disabled,
        )
        await lockout.forgive(tx, operator.email)
        await sign_off.revoke_others(tx, actor)
        await _audit(tx, actor, "operator.password_changed", operator.id, None, None)


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
        rules.may_grant(await _hold_rights(tx, actor), checked)
        role_id = await roles.create(tx, name=clean, permissions=checked, require_totp=require_totp)
        if role_id is None:
            raise RoleNameTaken
        await _audit(
            tx,
            actor,
            "role.created",
            role_id,
            None,
            {"name": clean, "permissions": checked, "require_totp": require_totp},
        )
    return role_id


async def change_role(runtime: Runtime, actor: Actor, *, role_id: str, change: RoleChange) -> list[EnrolmentCode]:
    """Change a role for all operators who have it, with immediate effect.

    Returns enrolment codes for those who need a second factor from now on and have none.

    Raises NotFound, ValidationFailed, Forbidden, RoleNameTaken, LastAdministrator, TotpNotEnrolled.
    """
    checked = None if change.permissions is None else rules.check_permissions(change.permissions)
    name = None if change.name is None else names.checked(change.name, field="name")
    async with runtime.transaction() as tx:
        rights = await _hold_rights(tx, actor)
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
        holders = await operators.lock_with_role(tx, role_id)
        if not await roles.update(
            tx, role_id, name=after.name, permissions=after.permissions, require_totp=after.require_totp
        ):
            raise RoleNameTaken
        await _check_administrator_stays(tx)
        await _audit(tx, actor, "role.changed", role_id, _seen_role(before), _seen_role(after))
        codes = []
        for holder in holders:
            changed = attrs.evolve(holder, permissions=after.permissions, totp_by_role=after.require_totp)
            if code := await _code_for(runtime, tx, holder, changed):
                codes.append(EnrolmentCode(operator_id=holder.id, enrolment_code=code))
        return codes


def _seen_role(role: Role) -> dict[str, Any]:
    return {"name": role.name, "permissions": role.permissions, "require_totp": role.require_totp}


async def _may_require_totp(tx: Tx, actor: Actor, role_id: str) -> None:
    """Keep an operator from locking out themselves with a rule of the role that they have. Raises TotpNotEnrolled."""
    caller = await operators.get(tx, actor.user_id)
    if caller is not None and caller.role_id == role_id and not caller.has_totp:
        raise totp.TotpNotEnrolled


async def _hold_rights(tx: Tx, actor: Actor) -> dict[str, str]:
    """Lock all rights, and return the caller's as they are now. They may have changed since the request arrived.

    Raises Forbidden.
    """
    await operators.hold_rights(tx)
    caller = await operators.get(tx, actor.user_id)
    if caller is None or caller.disabled:
        raise Forbidden
    rules.require(caller.permissions, "operators", "write")
    return caller.permissions


async def _check_administrator_stays(tx: Tx) -> None:
    """Check that an enabled operator with all rights is left. Raises LastAdministrator."""
    if not await operators.any_administrator(tx):
        raise LastAdministrator


async def _audit(tx: Tx, actor: Actor, action: str, object_id: str, before: Any, after: Any) -> None:
    """Store the audit row of a change of an operator or a role. `before` and `after` are shown as they are."""
    await operators.audit(
        tx,
        actor.user_id,
        action,
        "role" if action.startswith("role") else "operator",
        object_id,
        before=before,
        after=after,
    )
