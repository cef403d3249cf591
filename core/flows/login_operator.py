"""Operators sign in with e-mail and password (specification, Authentication 4 and 6; contract 8).

The password is checked between two transactions, because that takes 0.1 s and no row may be held so long. The second
one decides on what is true then, so parallel guesses can't get more tries than the limit.
"""

import datetime as dt
from typing import Any

from core.base.actor import UserType
from core.base.errors import DomainError
from core.logins.issued import Tokens
from core.operators import rules
from core.operators import store as operators
from core.operators.rules import AccountLocked, LoginInvalid
from core.operators.store import Operator
from core.runtime import Runtime
from core.steps import lockout, tokens

# An e-mail that is nobody's is counted like a known one, whose count waits for a good login; so it is kept for long.
KEEP_UNKNOWN = dt.timedelta(days=30)
PURGE_AT_ONCE = 1_000  # rows a statement


async def sign_in(runtime: Runtime, *, email: str, password: str, device: dict[str, Any]) -> tuple[Tokens, Operator]:
    """Open an operator's auth session.

    Raises LoginInvalid (also for an unknown e-mail, in the same time) or AccountLocked (likewise, right password or not).
    """
    async with runtime.transaction() as tx:
        before = await operators.lock_by_email(tx, email)
    stored = before.password_hash if before and not before.disabled else ""
    right = await runtime.passwords.verify(password, stored)
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


async def purge_unknown(runtime: Runtime) -> None:
    """Sweep: forget failed logins of e-mails that are nobody's: anybody may send any number of those."""
    while True:
        async with runtime.transaction() as tx:
            gone = await operators.purge_unknown(tx, before=tx.now - KEEP_UNKNOWN, limit=PURGE_AT_ONCE)
        if gone < PURGE_AT_ONCE:
            return
