"""What an erasure reads and keeps of customers (docs/privacy.md#erasure).

An erased customer who comes back is recognised, for the first-session discount (docs/privacy.md#coming-back).
"""

import datetime as dt
from collections.abc import Sequence

from core.accounts.customers.rules import Identity, IdentityKind
from core.accounts.customers.tables import Customer as Customers
from core.erasures import store as erasures
from core.erasures.rules import identity_hash
from core.runtime.container import Runtime
from core.storage import sql_files
from core.storage.statements import p, statement
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)
IDENTITIES = statement(
    Customers.select(*(getattr(Customers, kind.value) for kind in IdentityKind)).where(Customers.id == p.id)
)
IS_ERASED = statement(Customers.select(Customers.id).where(Customers.id == p.id, Customers.erased_at.is_not_null()))
SET_HAD_FIRST_SESSION = statement(Customers.update(had_first_session=True).where(Customers.id == p.id))
ACCOUNT = statement(Customers.select(Customers.account_belongs_to).where(Customers.id == p.id))


async def account_of(reader: Reader, customer_id: str) -> str:
    """Return the id of the account that a customer has joined, or the customer's own."""
    return await ACCOUNT.value(reader, id=customer_id) or customer_id


async def identities_of(reader: Reader, customer_id: str) -> list[Identity]:
    """Return the proven identities of a customer, in the order in which they are locked."""
    row = next(iter(await IDENTITIES.all(reader, id=customer_id)), {})
    return [Identity(kind=kind, value=row[kind.value]) for kind in IdentityKind if row.get(kind.value)]


async def rows_of(reader: Reader, account_id: str) -> list[str]:
    """Return the ids of an account and of all customers that have joined it, in order.

    These may be more than the caller's ids. While the account's identity is locked, no customer joins it.
    """
    return [row["id"] for row in await reader.fetch(SQL["rows_of"], account_id)]


async def lock_rows(tx: Tx, account_id: str, customer_ids: Sequence[str]) -> None:
    """Lock the customers of an account: those that joined it, in the order of their ids, and then the account."""
    await tx.execute(SQL["lock_rows"], customer_ids, account_id)
    await tx.execute(SQL["lock_rows"], [account_id], None)


async def mark_erased(tx: Tx, customer_ids: Sequence[str]) -> None:
    """Store that customers are erased. Their rows, joins and times stay."""
    await tx.execute(SQL["mark_erased"], customer_ids, tx.now)


async def is_erased(reader: Reader, customer_id: str) -> bool:
    """Return whether a customer's personal data was erased."""
    return await IS_ERASED.value(reader, id=customer_id) is not None


async def erased_at(reader: Reader, customer_ids: Sequence[str]) -> dict[str, dt.datetime]:
    """Return customer -> when they were erased, for those who were."""
    return {row["id"]: row["erased_at"] for row in await reader.fetch(SQL["erased_at"], customer_ids)}


async def set_had_first_session(tx: Tx, customer_id: str) -> None:
    """Record that an erased customer with the same identity had used up the first-session discount."""
    await SET_HAD_FIRST_SESSION.execute(tx, id=customer_id)


async def begin_export(tx: Tx, customer_id: str, *, every: dt.timedelta) -> dt.datetime | None:
    """Record an export at `tx.now`. Return None, or the time of the last one if that was less than `every` ago.

    Of several calls at once, one succeeds.
    """
    if await tx.fetchval(SQL["begin_export"], customer_id, tx.now, tx.now - every) is not None:
        return None
    return await tx.fetchval(SQL["exported_at"], customer_id)


async def remember_identity(runtime: Runtime, tx: Tx, identity: Identity) -> None:
    """Keep the hash of an identity whose customer is erased and had used up the discount."""
    key = runtime.settings.erasure_hash_keys[0]
    await erasures.keep_hash(tx, identity_hash(key, kind=identity.kind.value, value=identity.value))


async def had_first_session(runtime: Runtime, tx: Tx, identity: Identity) -> bool:
    """Return whether an erased customer with this identity had used up the discount."""
    keys = runtime.settings.erasure_hash_keys
    return await erasures.knows(
        tx, [identity_hash(key, kind=identity.kind.value, value=identity.value) for key in keys]
    )
