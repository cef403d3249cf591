"""Count failed sign-ins of operators: by e-mail from all addresses, and by e-mail and address.

The count of all addresses locks the e-mail, unless `cc_login_lockout_scope` says that one address is locked alone
(`core/accounts/operators/lockout.py`). What a signed-in operator types is counted by their auth session instead of the
address. Unknown e-mails are counted in the same way, so that an attacker can't tell them from known ones.

docs/product.md#sign-in-of-operators has the limits.
"""

import datetime as dt
import hashlib

import attrs

from core.accounts.operators import store as operators
from core.accounts.operators.store import Operator
from core.accounts.operators.tables import Operator as Operators
from core.accounts.operators.tables import SignInAddress as Addresses
from core.accounts.operators.tables import UnknownLogin as UnknownLogins
from core.storage import sql_files
from core.storage.statements import insert, p, statement
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)
LOCK_UNKNOWN = statement(
    insert(UnknownLogins, "email_hash updated_at", failed_login_count=0).on_conflict(
        UnknownLogins.email_hash, "DO UPDATE", [UnknownLogins.updated_at]
    )
)
LOCK_ADDRESS = statement(
    insert(Addresses, "id email_hash updated_at").on_conflict(Addresses.id, "DO UPDATE", [Addresses.updated_at])
)
WRITE_OPERATOR = statement(
    Operators.update(failed_login_count=p.failed, lockout_until=p.until).where(Operators.id == p.id)
)
WRITE_UNKNOWN = statement(
    UnknownLogins.update(failed_login_count=p.failed, lockout_until=p.until).where(
        UnknownLogins.email_hash == p.email_hash
    )
)
FORGIVE_OPERATOR = statement(
    Operators.update(failed_login_count=0, lockout_until=None).where(Operators.email == p.email)
)
FORGIVE_UNKNOWN = statement(
    UnknownLogins.update(failed_login_count=0, lockout_until=None).where(UnknownLogins.email_hash == p.email_hash)
)
FORGIVE = statement(
    Addresses.update(failed_login_count=0, lockout_until=None).where(Addresses.email_hash == p.email_hash)
)


@attrs.frozen(kw_only=True)
class Count:
    """The number of failed sign-ins, and the end of the lockout that they caused (None: no lockout)."""

    failed: int
    lockout_until: dt.datetime | None


@attrs.frozen(kw_only=True)
class Attempt:
    """One attempt with an e-mail from an address, and the counts before it.

    An unknown e-mail has no `operator`. `auth_session_id` is that of a signed-in operator, and `here` is then its count
    instead of the address's. `signed_in_at` is the operator's last successful sign-in from this address.
    """

    email: str
    address: str
    auth_session_id: str | None
    operator: Operator | None
    here: Count
    everywhere: Count
    signed_in_at: dt.datetime | None


def _email_hash(email: str) -> str:
    return hashlib.sha256(email.lower().encode("utf-8", "surrogatepass")).hexdigest()


def _here_id(email: str, address: str, auth_session_id: str | None) -> str:
    return hashlib.sha256(f"{_email_hash(email)} {auth_session_id or address}".encode()).hexdigest()


async def read(reader: Reader, *, email: str, address: str, auth_session_id: str | None = None) -> Attempt:
    """Read the counts without a lock."""
    here_id = _here_id(email, address, auth_session_id)
    row = await reader.fetchrow(SQL["counts"], email.lower(), _email_hash(email), here_id)
    return Attempt(
        email=email,
        address=address,
        auth_session_id=auth_session_id,
        operator=await operators.by_email(reader, email),
        here=Count(failed=row["here_failed"] or 0, lockout_until=row["here_until"]),
        everywhere=Count(failed=row["everywhere_failed"] or 0, lockout_until=row["everywhere_until"]),
        signed_in_at=row["signed_in_at"],
    )


async def lock(tx: Tx, *, email: str, address: str, auth_session_id: str | None = None) -> Attempt:
    """Lock the operator or the row of the unknown e-mail, then the address or auth session, and read the counts."""
    if await operators.lock_by_email(tx, email) is None:
        await LOCK_UNKNOWN.execute(tx, email_hash=_email_hash(email), updated_at=tx.now)
    here_id = _here_id(email, address, auth_session_id)
    await LOCK_ADDRESS.execute(tx, id=here_id, email_hash=_email_hash(email), updated_at=tx.now)
    return await read(tx, email=email, address=address, auth_session_id=auth_session_id)


async def write(tx: Tx, attempt: Attempt, *, here: Count, everywhere: Count, signed_in: bool) -> None:
    """Store both counts of a locked attempt. `signed_in` says that the operator has now signed in from this address."""
    count = {"failed": everywhere.failed, "until": everywhere.lockout_until}
    if attempt.operator is not None:
        await WRITE_OPERATOR.execute(tx, id=attempt.operator.id, **count)
    else:
        await WRITE_UNKNOWN.execute(tx, email_hash=_email_hash(attempt.email), **count)
    here_id = _here_id(attempt.email, attempt.address, attempt.auth_session_id)
    await tx.execute(SQL["write_address"], here_id, here.failed, here.lockout_until, signed_in, tx.now)


async def is_unknown_locked(reader: Reader, email: str, *, now: dt.datetime) -> bool:
    """Return whether an e-mail that no operator has is locked, from all addresses or from one."""
    return bool(await reader.fetchval(SQL["unknown_locked"], _email_hash(email), now))


async def forgive(tx: Tx, email: str) -> None:
    """End the lockouts of an e-mail, known or not: from all addresses, from each one, and of auth sessions."""
    await FORGIVE_OPERATOR.execute(tx, email=email.lower())
    await FORGIVE_UNKNOWN.execute(tx, email_hash=_email_hash(email))
    await FORGIVE.execute(tx, email_hash=_email_hash(email))


async def purge(tx: Tx, *, before: dt.datetime, limit: int) -> int:
    """Delete rows that were not used since `before`, at most `limit` of each kind.

    Returns the larger of the two numbers of deleted rows.
    """
    return max(
        await tx.execute(SQL["purge_unknown"], before, tx.now, limit),
        await tx.execute(SQL["purge_addresses"], before, tx.now, limit),
    )


async def trim(tx: Tx, *, most: int, limit: int) -> int:
    """Delete unknown e-mails above `most`, and addresses without a sign-in above `most`, at most `limit` of each kind.

    Rows that are locked go last, so that unknown e-mails lock like known ones. Returns the larger of the two numbers.
    """
    return max(
        await tx.execute(SQL["trim_unknown"], tx.now, most, limit),
        await tx.execute(SQL["trim_addresses"], tx.now, most, limit),
    )
