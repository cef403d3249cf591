"""Operators' second factors, which are columns of control_center_users: store them, and use up their codes.

All of it is part of the caller's transaction. If two callers use the same code, one succeeds.
"""

import datetime as dt

import attrs

from core.accounts.logins import sign_off
from core.accounts.operators import totp
from core.accounts.operators.store import Operator
from core.accounts.operators.tables import Operator as Operators
from core.runtime.container import Runtime
from core.storage.statements import columns_of, p, statement
from core.storage.transaction import Tx
from core.telemetry import logs


@attrs.frozen(kw_only=True)
class SecondFactor:
    """An operator's second factor. Secrets are encrypted, codes are hashes, times are real time."""

    totp_secret: str | None = attrs.field(repr=False)
    totp_last_step: int | None
    recovery_codes: list[str] | None = attrs.field(repr=False)
    totp_pending: str | None = attrs.field(repr=False)
    totp_pending_until: dt.datetime | None
    enrolment_code_hash: str | None = attrs.field(repr=False)
    enrolment_code_until: dt.datetime | None


LOCK = statement(
    Operators.select(*columns_of(Operators, SecondFactor)).where(Operators.id == p.id).lock_rows("UPDATE"), SecondFactor
)
USE_STEP = statement(Operators.update(totp_last_step=p.step, totp_secret=p.secret).where(Operators.id == p.id))
SET_RECOVERY_CODES = statement(Operators.update(recovery_codes=p.hashes).where(Operators.id == p.id))
SET_PENDING = statement(Operators.update(totp_pending=p.secret, totp_pending_until=p.until).where(Operators.id == p.id))
SET_ENROLMENT_CODE = statement(
    Operators.update(enrolment_code_hash=p.code_hash, enrolment_code_until=p.until).where(Operators.id == p.id)
)
CLEAR = statement(Operators.update(dict.fromkeys(columns_of(Operators, SecondFactor))).where(Operators.id == p.id))


async def lock(tx: Tx, operator_id: str) -> SecondFactor:
    """Lock and read an operator's second factor. The operator must exist."""
    return await LOCK.one(tx, id=operator_id)


async def use_step(tx: Tx, operator_id: str, *, step: int, secret: str) -> None:
    """Store the step of a used code, and the secret as encrypted with the newest key."""
    await USE_STEP.execute(tx, id=operator_id, step=step, secret=secret)


async def set_recovery_codes(tx: Tx, operator_id: str, hashes: list[str]) -> None:
    """Replace the hashes of the unused recovery codes."""
    await SET_RECOVERY_CODES.execute(tx, id=operator_id, hashes=hashes)


async def set_pending(tx: Tx, operator_id: str, *, secret: str, until: dt.datetime) -> None:
    """Store an encrypted secret that waits for its first code."""
    await SET_PENDING.execute(tx, id=operator_id, secret=secret, until=until)


async def enrol(tx: Tx, operator_id: str, *, secret: str, step: int, recovery_codes: list[str]) -> None:
    """Make the pending secret the second factor, and remove the enrolment code."""
    await clear(tx, operator_id)
    await use_step(tx, operator_id, step=step, secret=secret)
    await set_recovery_codes(tx, operator_id, recovery_codes)


async def clear(tx: Tx, operator_id: str) -> None:
    """Remove the second factor, a pending one, and the enrolment code."""
    await CLEAR.execute(tx, id=operator_id)


async def set_enrolment_code(tx: Tx, operator_id: str, *, code_hash: str, until: dt.datetime) -> None:
    """Store the hash of the one-time code that lets the operator set up a second factor."""
    await SET_ENROLMENT_CODE.execute(tx, id=operator_id, code_hash=code_hash, until=until)


log = logs.get("logins")


async def use_totp(runtime: Runtime, tx: Tx, operator_id: str, code: str) -> bool:
    """Use a code of the authenticator app. Return False if it is wrong or was used before."""
    held = await lock(tx, operator_id)
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
    await use_step(tx, operator_id, step=step, secret=sealed)
    return True


async def use_recovery_code(tx: Tx, operator_id: str, code: str) -> int | None:
    """Use a recovery code. Return how many are left, or None if it is wrong or was used before."""
    left = (await lock(tx, operator_id)).recovery_codes or []
    used = totp.hash_of(code, operator_id=operator_id)
    if used not in left:
        return None
    left.remove(used)
    await set_recovery_codes(tx, operator_id, left)
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
    """Make and return a new enrolment code, None if the operator needs no second factor.

    An earlier one no longer works.
    """
    if not operator.requires_totp(production=runtime.settings.production):
        return None
    code = totp.new_one_time_code()
    await set_enrolment_code(
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
    await clear(tx, operator.id)
    await sign_off.revoke(tx, user_id=operator.id)
    return await give_code_if_required(runtime, tx, operator)
