"""Refuse and count failed attempts at operators' secrets: passwords and codes, of the second factor or for enrolment.

docs/product.md#sign-in-of-operators has the rules.
"""

import datetime as dt

from core.accounts.logins import failed_sign_ins
from core.accounts.operators import attempts, rules
from core.accounts.operators import store as operators
from core.accounts.operators.attempts import Attempt, Count
from core.accounts.operators.rules import AccountLocked, LoginInvalid
from core.accounts.operators.store import Operator
from core.base.actor import Actor
from core.base.addresses import who_has
from core.base.errors import Unauthenticated
from core.runtime.container import Runtime
from core.runtime.transactions import translate_db_errors
from core.storage.transaction import Tx
from core.telemetry import metrics

# With the scope `address`, an address from which the operator has signed in within this time is exempt from the lockout
# of all addresses.
TRUSTED_FOR = dt.timedelta(days=30)


async def look(runtime: Runtime, *, email: str, address: str, auth_session_id: str | None = None) -> Attempt:
    """Read the counts of an e-mail and an address before the password is hashed.

    So an attempt on a locked account costs no hashing. `auth_session_id` as for `begin`. Raises AccountLocked, Unavailable.
    """
    with translate_db_errors():
        attempt = await attempts.read(
            runtime.db, email=email, address=who_has(address), auth_session_id=auth_session_id
        )
    _refuse_locked(runtime, attempt, now=runtime.now())
    return attempt


async def begin(runtime: Runtime, tx: Tx, *, email: str, address: str, auth_session_id: str | None = None) -> Attempt:
    """Lock the counts of an e-mail and an address, and the operator. Raises AccountLocked.

    A signed-in operator gives their `auth_session_id`. It is locked by its own count and not by those of sign-ins, so
    that a stranger can't stop the operator's work.
    """
    attempt = await attempts.lock(tx, email=email, address=who_has(address), auth_session_id=auth_session_id)
    _refuse_locked(runtime, attempt, now=tx.now)
    return attempt


def _refuse_locked(runtime: Runtime, attempt: Attempt, *, now: dt.datetime) -> None:
    here = rules.locked_for(attempt.here.lockout_until, now=now)
    everywhere = rules.locked_for(attempt.everywhere.lockout_until, now=now)
    by_address = rules.locks_by_address(runtime.config)
    if attempt.auth_session_id is not None:
        everywhere = None
    elif not by_address:
        here = None
    elif attempt.signed_in_at is not None and now < attempt.signed_in_at + TRUSTED_FOR:
        everywhere = None
    if here is not None or everywhere is not None:
        only_everywhere = by_address and here is None
        metrics.LIMITED.labels("operator_lockout_everywhere" if only_everywhere else "operator_lockout").inc()
        raise AccountLocked(retry_after_seconds=max(here or 0, everywhere or 0))


async def count_failure(runtime: Runtime, tx: Tx, attempt: Attempt) -> None:
    """Count a wrong password or code. The failure that reaches a limit locks the following attempts.

    A lockout that has begun gets no longer by failures that it does not refuse, such as those of a signed-in operator.
    """

    def counted(count: Count, limit: str, lockout: str) -> Count:
        if rules.locked_for(count.lockout_until, now=tx.now) is not None:
            return count
        failed, until = rules.after_failure(
            failed_before=count.failed,
            lockout_until=count.lockout_until,
            limit=runtime.config.number(limit),
            lockout=runtime.config.minutes(lockout),
            now=tx.now,
        )
        return Count(failed=failed, lockout_until=until)

    here, everywhere = attempt.here, attempt.everywhere
    by_address = rules.locks_by_address(runtime.config)
    if by_address or attempt.auth_session_id is not None:
        here = counted(here, "cc_login_max_attempts", "cc_login_lockout_minutes")
    if by_address:
        everywhere = counted(everywhere, "cc_login_max_attempts_everywhere", "cc_login_lockout_everywhere_minutes")
    else:
        everywhere = counted(everywhere, "cc_login_max_attempts", "cc_login_lockout_minutes")
    await attempts.write(tx, attempt, here=here, everywhere=everywhere, signed_in=False)


async def check_password(runtime: Runtime, actor: Actor, *, password: str, ip_address: str) -> Operator:
    """Check the calling operator's own password and count a wrong one. Return the operator as read before the check.

    Raises LoginInvalid, AccountLocked, Unauthenticated, Unavailable.
    """
    with failed_sign_ins.noted(runtime, way="operator password again", address=ip_address) as noted:
        with translate_db_errors():
            before = await operators.get(runtime.db, actor.user_id)
        if before is None:
            raise Unauthenticated
        noted.account, noted.auth_session_id = before.email, actor.auth_session_id
        source = {"email": before.email, "address": ip_address, "auth_session_id": actor.auth_session_id}
        await look(runtime, **source)
        right = await runtime.passwords.verify(password, before.password_hash)
        async with runtime.transaction() as tx:
            attempt = await begin(runtime, tx, **source)
            if right and attempt.operator is not None and attempt.operator.password_hash == before.password_hash:
                return before
            await count_failure(runtime, tx, attempt)
        raise LoginInvalid


async def note_sign_in(tx: Tx, attempt: Attempt) -> None:
    """Reset both counts after a complete sign-in, and remember its address."""
    none = Count(failed=0, lockout_until=None)
    await attempts.write(tx, attempt, here=none, everywhere=none, signed_in=True)
