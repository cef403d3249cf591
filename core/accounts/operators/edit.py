"""Add and change operators (docs/product.md#roles). Each write leaves an audit row."""

from typing import Any

import attrs

from core.accounts.logins import sign_off
from core.accounts.logins import store as logins
from core.accounts.operators import attempts, lockout, roles, rules
from core.accounts.operators import rights as operator_rights
from core.accounts.operators import store as operators
from core.accounts.operators.roles import Role
from core.accounts.operators.rules import EmailTaken, LoginInvalid
from core.accounts.operators.store import Operator
from core.base import field_messages, names
from core.base.actor import Actor
from core.base.errors import NotFound, ValidationFailed
from core.base.languages import Text
from core.runtime.container import Runtime
from core.security import passwords
from core.storage.transaction import Tx


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


async def add_operator(runtime: Runtime, actor: Actor, *, wanted: OperatorChange) -> str:
    """Add an operator and return the id. Without a password they can't sign in yet.

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
        rights = await operator_rights.hold_rights(tx, actor)
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
        await operator_rights.audit(
            tx, actor, "operator.created", operator_id, None, {**_seen(made), "disabled": bool(wanted.disabled)}
        )
    return operator_id


async def _present_password(runtime: Runtime, actor: Actor, change: OperatorChange, ip_address: str) -> str:
    """Check the caller's present password, and return its hash. Raises ValidationFailed, LoginInvalid, AccountLocked."""
    if change.current_password is None:
        raise ValidationFailed.of("current_password", field_messages.REQUIRED)
    password = change.current_password
    return (await lockout.check_password(runtime, actor, password=password, ip_address=ip_address)).password_hash


async def change_operator(
    runtime: Runtime, actor: Actor, *, operator_id: str, change: OperatorChange, ip_address: str
) -> None:
    """Change an operator. If the operator is disabled or gets a new password, they are signed out everywhere.

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
        rights = await operator_rights.hold_rights(tx, actor)
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
        await operator_rights.check_administrator_stays(tx)
        if hashed is not None:
            await attempts.forgive(tx, email or before.email)
        if disabled or hashed is not None:
            await sign_off.revoke(tx, user_id=operator_id)
        after = await operators.get(tx, operator_id)
        assert after is not None
        seen = {**_seen(after), "password_changed": hashed is not None}
        await operator_rights.audit(tx, actor, "operator.changed", operator_id, _seen(before), seen)
