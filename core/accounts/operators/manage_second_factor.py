"""Operators set up, replace, remove and use their own second factor; an administrator resets another operator's.

Each write leaves an audit row, without secrets or codes. Lock order: auth sessions before the operator.
docs/product.md#second-factor has the rules.
"""

from collections.abc import Awaitable, Callable

import attrs

from core.accounts.logins import failed_sign_ins, sign_off
from core.accounts.logins import store as logins
from core.accounts.operators import lockout, rules, second_factor, totp
from core.accounts.operators import store as operators
from core.accounts.operators.store import Operator
from core.accounts.operators.totp import TotpInvalid, TotpNotBegun, TotpNotEnrolled, TotpRequired, TotpRequiredByRole
from core.base import field_messages
from core.base.actor import Actor
from core.base.errors import Forbidden, NotFound, Unauthenticated, ValidationFailed
from core.base.languages import Text
from core.runtime.container import Runtime
from core.storage.transaction import Tx

WAY = "operator code"


@attrs.frozen(kw_only=True)
class PendingFactor:
    """A secret that waits for its first code, as text and as the URI for authenticator apps."""

    secret: str = attrs.field(repr=False)
    otpauth_uri: str = attrs.field(repr=False)


async def begin(runtime: Runtime, actor: Actor, *, password: str, code: str | None, ip_address: str) -> PendingFactor:
    """Make a secret for the caller. `confirm` makes it the second factor within 10 minutes.

    `code` is a code of the present second factor or, if the role requires one and the caller has none, the enrolment
    code. In all other cases no code is needed. Raises LoginInvalid, TotpInvalid, AccountLocked, ValidationFailed.
    """
    await lockout.check_password(runtime, actor, password=password, ip_address=ip_address)
    secret = totp.new_secret()

    async def keep(tx: Tx, operator: Operator) -> bool:
        if not await _may_begin(runtime, tx, operator, code):
            return False
        sealed = totp.seal(runtime.keys.totp_secrets[0], secret, operator_id=operator.id)
        until = runtime.clock.real_now() + totp.PENDING_FOR
        await second_factor.set_pending(tx, operator.id, secret=sealed, until=until)
        await _audit(tx, actor, "operator.totp_begun", operator.id)
        return True

    operator = await _try(runtime, actor, keep, ip_address)
    return PendingFactor(secret=totp.as_text(secret), otpauth_uri=totp.otpauth_uri(email=operator.email, secret=secret))


async def _may_begin(runtime: Runtime, tx: Tx, operator: Operator, code: str | None) -> bool:
    if not operator.has_totp and not operator.requires_totp(production=runtime.settings.production):
        return True
    if code is None:
        raise ValidationFailed.of("code", field_messages.REQUIRED)
    if operator.has_totp:
        return await second_factor.use(runtime, tx, operator.id, code)
    return second_factor.is_enrolment_code(runtime, await second_factor.lock(tx, operator.id), operator.id, code)


async def confirm(runtime: Runtime, actor: Actor, *, code: str, ip_address: str) -> list[str]:
    """Make the pending secret the second factor. Return ten recovery codes, which are not shown again.

    The caller's other devices are signed out. Raises TotpInvalid, TotpNotBegun, AccountLocked.
    """
    codes = [totp.new_one_time_code() for _ in range(totp.RECOVERY_CODES)]

    async def enrol(tx: Tx, operator: Operator) -> bool:
        held = await second_factor.lock(tx, operator.id)
        now = runtime.clock.real_now()
        if held.totp_pending is None or held.totp_pending_until is None or held.totp_pending_until <= now:
            raise TotpNotBegun
        secret = totp.unseal(runtime.keys.totp_secrets, held.totp_pending, operator_id=operator.id)
        if secret is None:
            raise TotpNotBegun
        step = totp.matching_step(secret, code.strip(), real_now=now, after=None)
        if step is None:
            return False
        hashes = [totp.hash_of(one, operator_id=operator.id) for one in codes]
        await second_factor.enrol(tx, operator.id, secret=held.totp_pending, step=step, recovery_codes=hashes)
        await sign_off.revoke_others(tx, actor)
        await _audit(tx, actor, "operator.totp_enrolled", operator.id)
        return True

    await _try(runtime, actor, enrol, ip_address)
    return codes


async def remove(runtime: Runtime, actor: Actor, *, password: str, code: str, ip_address: str) -> None:
    """Remove the caller's second factor and sign out their other devices.

    Raises LoginInvalid, TotpInvalid, AccountLocked, TotpNotEnrolled, TotpRequiredByRole.
    """
    await lockout.check_password(runtime, actor, password=password, ip_address=ip_address)

    async def clear(tx: Tx, operator: Operator) -> bool:
        if not operator.has_totp:
            raise TotpNotEnrolled
        if operator.requires_totp(production=runtime.settings.production):
            raise TotpRequiredByRole
        if not await second_factor.use(runtime, tx, operator.id, code):
            return False
        await second_factor.clear(tx, operator.id)
        await sign_off.revoke_others(tx, actor)
        await _audit(tx, actor, "operator.totp_removed", operator.id)
        return True

    await _try(runtime, actor, clear, ip_address)


async def step_up(runtime: Runtime, actor: Actor, *, code: str, ip_address: str) -> None:
    """Let the caller's auth session do for 5 minutes what needs a fresh code.

    Raises TotpInvalid, TotpNotEnrolled, AccountLocked.
    """

    async def open_up(tx: Tx, operator: Operator) -> bool:
        if not operator.has_totp:
            raise TotpNotEnrolled
        if not await second_factor.use(runtime, tx, operator.id, code):
            return False
        until = runtime.clock.real_now() + totp.STEPPED_UP_FOR
        await logins.step_up(tx, actor.auth_session_id, until=until)
        await _audit(tx, actor, "operator.stepped_up", operator.id)
        return True

    await _try(runtime, actor, open_up, ip_address)


async def reset(runtime: Runtime, actor: Actor, *, operator_id: str) -> str | None:
    """Remove another operator's second factor and sign them out everywhere.

    Returns their new enrolment code if their role requires a second factor, else None. The caller must have a second
    factor and no fewer rights than the other operator. Raises NotFound, Forbidden, TotpRequired.
    """
    if operator_id == actor.user_id:
        raise Forbidden(
            Text(
                en="Replace your own second factor in your account.", id="Ganti faktor kedua Anda sendiri di akun Anda."
            )
        )
    async with runtime.transaction() as tx:
        await operators.hold_rights(tx)
        caller = await operators.get(tx, actor.user_id)
        if caller is None or not caller.has_totp:
            raise TotpRequired
        await logins.lock_all(tx, operator_id)
        operator = await operators.lock(tx, operator_id)
        if operator is None:
            raise NotFound
        rules.require(caller.permissions, "operators", "write")
        rules.may_grant(caller.permissions, operator.permissions)
        code = await second_factor.reset(runtime, tx, operator)
        await _audit(tx, actor, "operator.totp_reset", operator_id)
    return code


async def _try(
    runtime: Runtime, actor: Actor, use: Callable[[Tx, Operator], Awaitable[bool]], ip_address: str
) -> Operator:
    """Run one attempt with a code. A wrong code is counted, and committed before it is refused.

    `use` writes the effects and returns whether the code was right. Raises TotpInvalid, AccountLocked, Unauthenticated.
    """
    with failed_sign_ins.noted(runtime, way=WAY, address=ip_address) as noted:
        noted.auth_session_id = actor.auth_session_id
        known = await operators.get(runtime.db, actor.user_id)
        if known is None:
            raise Unauthenticated
        noted.account = known.email
        async with runtime.transaction() as tx:
            await logins.lock_all(tx, actor.user_id)
            attempt = await lockout.begin(
                runtime, tx, email=known.email, address=ip_address, auth_session_id=actor.auth_session_id
            )
            operator = attempt.operator
            if operator is None or operator.id != actor.user_id or operator.disabled:
                raise Unauthenticated
            if await use(tx, operator):
                return operator
            await lockout.count_failure(runtime, tx, attempt)
        raise TotpInvalid


async def _audit(tx: Tx, actor: Actor, action: str, operator_id: str) -> None:
    await operators.audit(tx, actor.user_id, action, "operator", operator_id)
