"""Writes and locking reads of operators' second factors, which are columns of control_center_users."""

import datetime as dt

import attrs

from core.storage.database import Tx
from core.storage.records import one


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


async def lock(tx: Tx, operator_id: str) -> SecondFactor:
    """Lock and read an operator's second factor. The operator must exist."""
    row = await tx.fetchrow(
        """SELECT totp_secret, totp_last_step, recovery_codes, totp_pending, totp_pending_until, enrolment_code_hash,
             enrolment_code_until FROM control_center_users WHERE id = $1 FOR UPDATE""",
        operator_id,
    )
    found = one(SecondFactor, row)
    assert found is not None
    return found


async def use_step(tx: Tx, operator_id: str, *, step: int, secret: str) -> None:
    """Store the step of a used code, and the secret as encrypted with the newest key."""
    await tx.execute(
        "UPDATE control_center_users SET totp_last_step = $2, totp_secret = $3 WHERE id = $1", operator_id, step, secret
    )


async def set_recovery_codes(tx: Tx, operator_id: str, hashes: list[str]) -> None:
    """Replace the hashes of the unused recovery codes."""
    await tx.execute("UPDATE control_center_users SET recovery_codes = $2 WHERE id = $1", operator_id, hashes)


async def set_pending(tx: Tx, operator_id: str, *, secret: str, until: dt.datetime) -> None:
    """Store an encrypted secret that waits for its first code."""
    await tx.execute(
        "UPDATE control_center_users SET totp_pending = $2, totp_pending_until = $3 WHERE id = $1",
        operator_id, secret, until,
    )  # fmt: skip


async def enrol(tx: Tx, operator_id: str, *, secret: str, step: int, recovery_codes: list[str]) -> None:
    """Make the pending secret the second factor, and remove the enrolment code."""
    await clear(tx, operator_id)
    await use_step(tx, operator_id, step=step, secret=secret)
    await set_recovery_codes(tx, operator_id, recovery_codes)


async def clear(tx: Tx, operator_id: str) -> None:
    """Remove the second factor, a pending one, and the enrolment code."""
    await tx.execute(
        """UPDATE control_center_users SET totp_secret = NULL, totp_last_step = NULL, recovery_codes = NULL, totp_pending = NULL,
             totp_pending_until = NULL, enrolment_code_hash = NULL, enrolment_code_until = NULL WHERE id = $1""",
        operator_id,
    )


async def set_enrolment_code(tx: Tx, operator_id: str, *, code_hash: str, until: dt.datetime) -> None:
    """Store the hash of the one-time code that lets the operator set up a second factor."""
    await tx.execute(
        "UPDATE control_center_users SET enrolment_code_hash = $2, enrolment_code_until = $3 WHERE id = $1",
        operator_id, code_hash, until,
    )  # fmt: skip
