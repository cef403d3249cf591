"""Count failed sign-ins of operators: by e-mail and address, and by e-mail from all addresses.

An attacker who knows an operator's e-mail must not be able to lock the operator out, and must not get unlimited guesses
by changing addresses. So failures are counted twice. The count of one address locks the e-mail for that address only.
The count of all addresses has a higher limit and locks the e-mail for every address except those from which its
operator has signed in lately. Unknown e-mails are counted in the same way, so that an attacker can't tell them from
known ones.

docs/product.md#sign-in-of-operators has the limits.
"""

import datetime as dt
import hashlib

import attrs

from core.operators import store as operators
from core.operators.store import Operator
from core.storage.database import Tx
from core.storage.reads import Reader

# The counts of an e-mail ($1; its hash is $2) from all addresses, and from one address ($3).
COUNTS = """SELECT
    CASE WHEN o.id IS NULL THEN u.failed_login_count ELSE o.failed_login_count END AS everywhere_failed,
    CASE WHEN o.id IS NULL THEN u.lockout_until ELSE o.lockout_until END AS everywhere_until,
    a.failed_login_count AS here_failed, a.lockout_until AS here_until, a.signed_in_at
  FROM (SELECT) AS nothing LEFT JOIN control_center_users o ON o.email = $1
  LEFT JOIN unknown_operator_logins u ON u.email_hash = $2 LEFT JOIN operator_sign_in_addresses a ON a.id = $3"""


@attrs.frozen(kw_only=True)
class Count:
    """The number of failed sign-ins, and the end of the lockout that they caused (None: no lockout)."""

    failed: int
    lockout_until: dt.datetime | None


@attrs.frozen(kw_only=True)
class Attempt:
    """One sign-in attempt with an e-mail from an address, and the counts before it.

    An unknown e-mail has no `operator`. `signed_in_at` is the operator's last successful sign-in from this address.
    """

    email: str
    address: str
    operator: Operator | None
    here: Count
    everywhere: Count
    signed_in_at: dt.datetime | None


def _email_hash(email: str) -> str:
    return hashlib.sha256(email.lower().encode("utf-8", "surrogatepass")).hexdigest()


def _address_id(email: str, address: str) -> str:
    return hashlib.sha256(f"{_email_hash(email)} {address}".encode()).hexdigest()


async def read(reader: Reader, *, email: str, address: str) -> Attempt:
    """Read the counts without a lock."""
    row = await reader.fetchrow(COUNTS, email.lower(), _email_hash(email), _address_id(email, address))
    return Attempt(
        email=email,
        address=address,
        operator=await operators.by_email(reader, email),
        here=Count(failed=row["here_failed"] or 0, lockout_until=row["here_until"]),
        everywhere=Count(failed=row["everywhere_failed"] or 0, lockout_until=row["everywhere_until"]),
        signed_in_at=row["signed_in_at"],
    )


async def lock(tx: Tx, *, email: str, address: str) -> Attempt:
    """Lock the operator or the row of the unknown e-mail, then the address, and read the counts."""
    if await operators.lock_by_email(tx, email) is None:
        await tx.execute(
            """INSERT INTO unknown_operator_logins (email_hash, failed_login_count, updated_at) VALUES ($1, 0, $2)
               ON CONFLICT (email_hash) DO UPDATE SET updated_at = excluded.updated_at""",
            _email_hash(email), tx.now,
        )  # fmt: skip
    await tx.execute(
        """INSERT INTO operator_sign_in_addresses (id, email_hash, updated_at) VALUES ($1, $2, $3)
           ON CONFLICT (id) DO UPDATE SET updated_at = excluded.updated_at""",
        _address_id(email, address), _email_hash(email), tx.now,
    )  # fmt: skip
    return await read(tx, email=email, address=address)


async def write(tx: Tx, attempt: Attempt, *, here: Count, everywhere: Count, signed_in: bool) -> None:
    """Store both counts of a locked attempt. `signed_in` says that the operator has now signed in from this address."""
    if attempt.operator is not None:
        await tx.execute(
            "UPDATE control_center_users SET failed_login_count = $2, lockout_until = $3 WHERE id = $1",
            attempt.operator.id, everywhere.failed, everywhere.lockout_until,
        )  # fmt: skip
    else:
        await tx.execute(
            "UPDATE unknown_operator_logins SET failed_login_count = $2, lockout_until = $3 WHERE email_hash = $1",
            _email_hash(attempt.email), everywhere.failed, everywhere.lockout_until,
        )  # fmt: skip
    await tx.execute(
        """UPDATE operator_sign_in_addresses SET failed_login_count = $2, lockout_until = $3,
             signed_in_at = CASE WHEN $4 THEN $5 ELSE signed_in_at END WHERE id = $1""",
        _address_id(attempt.email, attempt.address), here.failed, here.lockout_until, signed_in, tx.now,
    )  # fmt: skip


async def forgive(tx: Tx, email: str) -> None:
    """End the lockouts of an e-mail at every address."""
    await tx.execute(
        "UPDATE operator_sign_in_addresses SET failed_login_count = 0, lockout_until = NULL WHERE email_hash = $1",
        _email_hash(email),
    )


async def purge(tx: Tx, *, before: dt.datetime, limit: int) -> int:
    """Delete rows that were not used since `before`, at most `limit` of each kind.

    Returns the larger of the two numbers of deleted rows.
    """
    return max(
        await tx.execute(
            """DELETE FROM unknown_operator_logins WHERE email_hash = ANY (ARRAY(SELECT email_hash
                 FROM unknown_operator_logins WHERE updated_at < $1 AND (lockout_until IS NULL OR lockout_until < $2)
                 LIMIT $3 FOR UPDATE SKIP LOCKED))""",
            before, tx.now, limit,
        ),
        await tx.execute(
            """DELETE FROM operator_sign_in_addresses WHERE id = ANY (ARRAY(SELECT id
                 FROM operator_sign_in_addresses WHERE updated_at < $1 AND (lockout_until IS NULL OR lockout_until < $2)
                 LIMIT $3 FOR UPDATE SKIP LOCKED))""",
            before, tx.now, limit,
        ),
    )  # fmt: skip
