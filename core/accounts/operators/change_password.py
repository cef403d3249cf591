"""Change the caller's password in the control center (docs/product.md#sign-in-of-operators)."""

from core.accounts.logins import sign_off
from core.accounts.logins import store as logins
from core.accounts.operators import attempts, lockout, rights
from core.accounts.operators import store as operators
from core.accounts.operators.rules import LoginInvalid
from core.base.actor import Actor
from core.base.errors import ValidationFailed
from core.base.languages import Text
from core.runtime.container import Runtime
from core.security import passwords


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
        await attempts.forgive(tx, operator.email)
        await sign_off.revoke_others(tx, actor)
        await rights.audit(tx, actor, "operator.password_changed", operator.id, None, None)
