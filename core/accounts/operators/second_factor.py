"""Writes and locking reads of operators' second factors, which are columns of control_center_users."""

import datetime as dt

import attrs

from core.accounts.operators.tables import Operator as Operators
from core.storage.statements import columns_of, p, statement
from core.storage.transaction import Tx


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
