"""Use up codes of an operator's second factor, in the caller's transaction.

If two callers use the same code, one succeeds.
"""

from core.accounts.logins import sign_off
from core.accounts.operators import second_factor as store
from core.accounts.operators import totp
from core.accounts.operators.second_factor import SecondFactor
from core.accounts.operators.store import Operator
from core.runtime.container import Runtime
from core.storage.transaction import Tx
from core.telemetry import logs

log = logs.get("logins")


async def use_totp(runtime: Runtime, tx: Tx, operator_id: str, code: str) -> bool:
    """Use a code of the authenticator app. Return False if it is wrong or was used before."""
    held = await store.lock(tx, operator_id)
    if held.totp_secret is None:
        return False
    secret = totp.unseal(runtime.keys.totp_secrets, held.totp_secret, operator_id=operator_id)
    if secret is None:
        log.error("a second factor can't be decrypted: its key is no longer in JWT_SECRETS", user_id=operator_id)
        return False
    step = totp.matching_step(secret, code, real_now=runtime.clock.real_now(), after=held.totp_last_step)
    if step is None:
        return False
    # Seal the secret again with the newest key, so that after a rotation of JWT_SECRETS the old key is soon not needed.
    sealed = totp.seal(runtime.keys.totp_secrets[0], secret, operator_id=operator_id)
    await store.use_step(tx, operator_id, step=step, secret=sealed)
    return True


async def use_recovery_code(tx: Tx, operator_id: str, code: str) -> int | None:
    """Use a recovery code. Return how many are left, or None if it is wrong or was used before."""
    left = (await store.lock(tx, operator_id)).recovery_codes or []
    used = totp.hash_of(code, operator_id=operator_id)
    if used not in left:
        return None
    left.remove(used)
    await store.set_recovery_codes(tx, operator_id, left)
    return len(left)


async def use(runtime: Runtime, tx: Tx, operator_id: str, code: str) -> bool:
    """Use a code of either kind. Return whether it worked.

    An operator who has lost the authenticator has only recovery codes.
    """
    if len(code.strip()) == totp.DIGITS:
        return await use_totp(runtime, tx, operator_id, code.strip())
    return await use_recovery_code(tx, operator_id, code) is not None


def is_enrolment_code(runtime: Runtime, held: SecondFactor, operator_id: str, code: str) -> bool:
    """Return whether this is the operator's enrolment code and it has not expired."""
    return (
        held.enrolment_code_hash == totp.hash_of(code, operator_id=operator_id)
        and held.enrolment_code_until is not None
        and runtime.clock.real_now() < held.enrolment_code_until
    )


async def give_code_if_required(runtime: Runtime, tx: Tx, operator: Operator) -> str | None:
    """Make and return a new enrolment code, None if the operator needs no second factor. An earlier one no longer works."""
    if not operator.requires_totp(production=runtime.settings.production):
        return None
    code = totp.new_one_time_code()
    await store.set_enrolment_code(
        tx,
        operator.id,
        code_hash=totp.hash_of(code, operator_id=operator.id),
        until=runtime.clock.real_now() + totp.ENROLMENT_CODE_FOR,
    )
    return code


async def reset(runtime: Runtime, tx: Tx, operator: Operator) -> str | None:
    """Remove an operator's second factor and revoke their auth sessions. The caller must hold the operator's lock.

    Returns a new enrolment code if the operator needs a second factor, else None.
    """
    await store.clear(tx, operator.id)
    await sign_off.revoke(tx, user_id=operator.id)
    return await give_code_if_required(runtime, tx, operator)
