"""Sign in an operator with e-mail and password, and with a code if they have a second factor.

The password is verified between two transactions: that takes 0.1 s, which is too long to hold a row lock. The second
transaction decides by the state at that time, so parallel guesses get no more attempts than the limit.

docs/product.md#sign-in-of-operators has the limits.
"""

import datetime as dt
from typing import Any

import attrs

from core.accounts.logins import failed_sign_ins, tokens
from core.accounts.logins import store as logins
from core.accounts.logins.tokens import Opening
from core.accounts.operators import lockout, login_token, second_factor, totp
from core.accounts.operators import store as operators
from core.accounts.operators.lockout import CountedAttempt
from core.accounts.operators.login_token import LoginTokenInvalid
from core.accounts.operators.rules import LoginInvalid
from core.accounts.operators.store import Operator
from core.base.actor import UserType
from core.runtime.container import Runtime
from core.security.access import Tokens
from core.storage.transaction import Tx
from core.telemetry import metrics

# Failed sign-ins with unknown e-mails are counted too. A known account's count resets on success; an unknown one has
# none, so its row is kept this long.
KEEP_ATTEMPTS = dt.timedelta(days=30)
# Rows of either kind that are kept: anyone can leave them. Unlocked ones go first, so that it takes a flood to tell an
# unknown e-mail from a known one by its count.
KEEP_MOST = 100_000
PURGE_AT_ONCE = 1_000  # rows for each statement


@attrs.frozen(kw_only=True)
class SignIn:
    """The result of a correct password: tokens, or a login token if a code must follow."""

    operator: Operator
    tokens: Tokens | None = None
    login_token: str | None = attrs.field(default=None, repr=False)


async def sign_in(runtime: Runtime, *, email: str, password: str, device: dict[str, Any], ip_address: str) -> SignIn:
    """Open an operator's auth session, or return a login token if the operator has a second factor.

    Raises LoginInvalid (also for an unknown e-mail, after the same time), AccountLocked, Unavailable.
    """
    email = email.strip()
    with failed_sign_ins.noted(runtime, way="operator password", address=ip_address) as noted:
        noted.account = email.lower()
        before = (await lockout.look(runtime, email=email, address=ip_address)).operator
        stored = before.password_hash if before and not before.disabled else ""
        right = await runtime.passwords.verify(password, stored)
        async with runtime.transaction() as tx:
            attempt = await lockout.begin(runtime, tx, email=email, address=ip_address)
            operator = attempt.operator
            right = right and operator is not None and not operator.disabled and operator.password_hash == stored
            if right and operator is not None:
                return await _with_right_password(runtime, tx, attempt, operator, device)
            await lockout.count_failure(runtime, tx, attempt)
        raise LoginInvalid


async def _with_right_password(
    runtime: Runtime, tx: Tx, attempt: CountedAttempt, operator: Operator, device: dict[str, Any]
) -> SignIn:
    if operator.has_totp:  # the counts are reset only after the second factor
        token = login_token.make(
            runtime.keys.login_tokens[0],
            operator_id=operator.id,
            password_hash=operator.password_hash,
            real_now=runtime.clock.real_now(),
        )
        return SignIn(operator=operator, login_token=token)
    await lockout.note_sign_in(tx, attempt)
    issued = await tokens.issue(runtime, tx, user_type=UserType.OPERATOR, user_id=operator.id, device=device)
    return SignIn(operator=operator, tokens=issued)


async def verify_second_factor(
    runtime: Runtime,
    *,
    token: str,
    code: str | None,
    recovery_code: str | None,
    device: dict[str, Any],
    ip_address: str,
) -> tuple[Tokens, Operator]:
    """Complete a sign-in with a code of the authenticator or with a recovery code. Return (tokens, operator).

    Raises LoginTokenInvalid, TotpInvalid, AccountLocked.
    """
    with failed_sign_ins.noted(runtime, way="operator second factor", address=ip_address) as noted:
        keys = runtime.keys.login_tokens
        read = login_token.read(keys, token, real_now=runtime.clock.real_now())
        known = await operators.get(runtime.db, read.operator_id)
        if known is None:
            raise LoginTokenInvalid
        noted.account = known.email
        async with runtime.transaction() as tx:
            attempt = await lockout.begin(runtime, tx, email=known.email, address=ip_address)
            operator = attempt.operator
            if operator is None or operator.id != read.operator_id or operator.disabled or not operator.has_totp:
                raise LoginTokenInvalid
            if not login_token.is_of_password(keys, read, operator.password_hash):
                raise LoginTokenInvalid
            if await logins.exists(tx, read.auth_session_id):
                raise LoginTokenInvalid  # already used: its auth session exists
            if await _use(runtime, tx, operator, code=code, recovery_code=recovery_code):
                await lockout.note_sign_in(tx, attempt)
                issued = await tokens.issue(
                    runtime,
                    tx,
                    user_type=UserType.OPERATOR,
                    user_id=operator.id,
                    device=device,
                    opening=Opening(auth_session_id=read.auth_session_id),
                )
                return issued, operator
            await lockout.count_failure(runtime, tx, attempt)
        raise totp.TotpInvalid


async def _use(runtime: Runtime, tx: Tx, operator: Operator, *, code: str | None, recovery_code: str | None) -> bool:
    if recovery_code is None:
        return await second_factor.use_totp(runtime, tx, operator.id, code or "")
    left = await second_factor.use_recovery_code(tx, operator.id, recovery_code)
    if left is None:
        return False
    await operators.audit(
        tx, operator.id, "operator.recovery_code_used", "operator", operator.id, after={"recovery_codes_left": left}
    )
    return True


async def purge_attempts(runtime: Runtime) -> None:
    """Sweep: delete counts of e-mails and addresses that were not used for 30 days, and those above KEEP_MOST."""
    gone = PURGE_AT_ONCE
    while gone >= PURGE_AT_ONCE:
        async with runtime.transaction() as tx:
            gone = await lockout.purge(tx, before=tx.now - KEEP_ATTEMPTS, limit=PURGE_AT_ONCE)
    gone = PURGE_AT_ONCE
    while gone >= PURGE_AT_ONCE:
        async with runtime.transaction() as tx:
            gone = await lockout.trim(tx, most=KEEP_MOST, limit=PURGE_AT_ONCE)
            tx.count(metrics.LIMITED.labels("operator_counts_kept"), gone)
