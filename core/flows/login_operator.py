"""Operators sign in with e-mail and password (specification, Authentication 4 and 6; contract 8).

The password is checked between two transactions, because that takes 0.1 s and no row may be held so long. The second
one decides on what is true then, so parallel guesses can't get more tries than the limit.
"""

from typing import Any

from core.base.actor import UserType
from core.base.errors import DomainError
from core.logins import passwords
from core.logins.issued import Tokens
from core.operators import rules
from core.operators import store as operators
from core.operators.rules import AccountLocked, LoginInvalid
from core.operators.store import Operator
from core.runtime import Runtime
from core.steps import lockout, tokens


async def sign_in(runtime: Runtime, *, email: str, password: str, device: dict[str, Any]) -> tuple[Tokens, Operator]:
    """Open an operator's auth session.

    Raises LoginInvalid (also for an unknown e-mail, in the same time) or AccountLocked (likewise, right password or not).
    """
    async with runtime.transaction() as tx:
        before = await operators.lock_by_email(tx, email)
    right = await passwords.verify(password, before.password_hash if before and not before.disabled else "")
    refusal: DomainError | None = None
    issued: Tokens | None = None
    async with runtime.transaction() as tx:
        operator = await operators.lock_by_email(tx, email)
        if operator is not None:
            failed, lockout_until = operator.failed_login_count, operator.lockout_until
        else:
            failed, lockout_until = await operators.lock_unknown(tx, email)
        seconds = rules.locked_for(lockout_until, now=tx.now)
        if seconds is not None:
            raise AccountLocked(retry_after_seconds=seconds)
        good = right and operator is not None and before is not None and not operator.disabled
        if operator is None or before is None or not good or operator.password_hash != before.password_hash:
            refusal = LoginInvalid()
            count, until = lockout.after_failure(
                runtime.config, failed_before=failed, lockout_until=lockout_until, now=tx.now
            )
            if operator is not None:
                await operators.set_failures(tx, operator.id, count=count, lockout_until=until)
            else:
                await operators.set_unknown_failures(tx, email, count=count, lockout_until=until)
        else:
            await operators.set_failures(tx, operator.id, count=0, lockout_until=None)
            issued = await tokens.issue(runtime, tx, user_type=UserType.OPERATOR, user_id=operator.id, device=device)
    if operator is None or issued is None:
        raise refusal or LoginInvalid
    return issued, operator
