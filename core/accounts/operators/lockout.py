"""Count and refuse failed attempts at operators' secrets: passwords and codes, of the second factor or for enrolment.

They are counted by e-mail from all addresses, and by e-mail and address. The count of all addresses locks the e-mail,
unless `cc_login_lockout_scope` says that one address is locked alone. What a signed-in operator types is counted by
their auth session instead of the address. Unknown e-mails are counted in the same way, so that an attacker can't tell
them from known ones.

docs/product.md#sign-in-of-operators has the rules and the limits.
"""

import datetime as dt
import hashlib

import attrs

from core.accounts.logins import failed_sign_ins
from core.accounts.operators import rules
from core.accounts.operators import store as operators
from core.accounts.operators.rules import AccountLocked, LoginInvalid
from core.accounts.operators.store import Operator
from core.accounts.operators.tables import Operator as Operators
from core.accounts.operators.tables import SignInAddress as Addresses
from core.accounts.operators.tables import UnknownLogin as UnknownLogins
from core.base.actor import Actor
from core.base.addresses import who_has
from core.base.errors import Unauthenticated
from core.runtime.container import Runtime
from core.storage import sql_files
from core.storage.statements import insert, p, statement
from core.storage.transaction import Reader, Tx
from core.telemetry import metrics

SQL = sql_files.load(__file__)
# With the scope `address`, an address from which the operator has signed in within this time is exempt from the lockout
# of all addresses.
TRUSTED_FOR = dt.timedelta(days=30)
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
class CountedAttempt:
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


async def _read_counts(
    reader: Reader, *, email: str, address: str, auth_session_id: str | None = None
) -> CountedAttempt:
    """Read the counts without a lock."""
    here_id = _here_id(email, address, auth_session_id)
    row = await reader.fetchrow(SQL["counts"], email.lower(), _email_hash(email), here_id)
    return CountedAttempt(
        email=email,
        address=address,
        auth_session_id=auth_session_id,
        operator=await operators.by_email(reader, email),
        here=Count(failed=row["here_failed"] or 0, lockout_until=row["here_until"]),
        everywhere=Count(failed=row["everywhere_failed"] or 0, lockout_until=row["everywhere_until"]),
        signed_in_at=row["signed_in_at"],
    )


async def _lock_counts(tx: Tx, *, email: str, address: str, auth_session_id: str | None = None) -> CountedAttempt:
    """Lock the operator or the row of the unknown e-mail, then the address or auth session, and read the counts."""
    if await operators.lock_by_email(tx, email) is None:
        await LOCK_UNKNOWN.execute(tx, email_hash=_email_hash(email), updated_at=tx.now)
    here_id = _here_id(email, address, auth_session_id)
    await LOCK_ADDRESS.execute(tx, id=here_id, email_hash=_email_hash(email), updated_at=tx.now)
    return await _read_counts(tx, email=email, address=address, auth_session_id=auth_session_id)


async def _write_counts(tx: Tx, attempt: CountedAttempt, *, here: Count, everywhere: Count, signed_in: bool) -> None:
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


async def look(runtime: Runtime, *, email: str, address: str, auth_session_id: str | None = None) -> CountedAttempt:
    """Read the counts of an e-mail and an address before the password is hashed.

    So an attempt on a locked account costs no hashing. `auth_session_id` as for `begin`. Raises AccountLocked,
    Unavailable.
    """
    attempt = await _read_counts(runtime.db, email=email, address=who_has(address), auth_session_id=auth_session_id)
    _refuse_locked(runtime, attempt, now=runtime.now())
    return attempt


async def begin(
    runtime: Runtime, tx: Tx, *, email: str, address: str, auth_session_id: str | None = None
) -> CountedAttempt:
    """Lock the counts of an e-mail and an address, and the operator. Raises AccountLocked.

    A signed-in operator gives their `auth_session_id`. It is locked by its own count and not by those of sign-ins, so
    that a stranger can't stop the operator's work.
    """
    attempt = await _lock_counts(tx, email=email, address=who_has(address), auth_session_id=auth_session_id)
    _refuse_locked(runtime, attempt, now=tx.now)
    return attempt


def _refuse_locked(runtime: Runtime, attempt: CountedAttempt, *, now: dt.datetime) -> None:
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


async def count_failure(runtime: Runtime, tx: Tx, attempt: CountedAttempt) -> None:
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
    await _write_counts(tx, attempt, here=here, everywhere=everywhere, signed_in=False)


async def check_password(runtime: Runtime, actor: Actor, *, password: str, ip_address: str) -> Operator:
    """Check the calling operator's own password and count a wrong one. Return the operator as read before the check.

    Raises LoginInvalid, AccountLocked, Unauthenticated, Unavailable.
    """
    with failed_sign_ins.noted(runtime, way="operator password again", address=ip_address) as noted:
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


async def note_sign_in(tx: Tx, attempt: CountedAttempt) -> None:
    """Reset both counts after a complete sign-in, and remember its address."""
    none = Count(failed=0, lockout_until=None)
    await _write_counts(tx, attempt, here=none, everywhere=none, signed_in=True)
