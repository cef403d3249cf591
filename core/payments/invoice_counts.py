"""Counts of the invoices made in the last hour.

They have limits, which are high for accounts that paid before (docs/product.md#payment-requests).
"""

import datetime as dt

from core.payments.tables import InvoiceAsked as InvoicesAsked
from core.storage import locks, sql_files
from core.storage.locks import AdvisoryLock
from core.storage.statements import insert, p, statement
from core.storage.transaction import Tx

WINDOW = dt.timedelta(hours=1)
# In an hour, of accounts that paid before: more than people need, so that the gateway's own limit is not reached.
PER_PAID_ACCOUNT, PER_ADDRESS_OF_PAID = 60, 600
PURGED_AT_ONCE = 5_000
# Deletes counts that are not newer than $1.
PURGE = f"""
  DELETE FROM invoices_asked
  WHERE id = ANY(ARRAY(
    SELECT id
    FROM invoices_asked
    WHERE asked_at <= $1
    LIMIT {PURGED_AT_ONCE}
    FOR UPDATE SKIP LOCKED
  ))
"""
SQL = sql_files.load(__file__)
ADD = statement(insert(InvoicesAsked, "id customer_id address has_paid asked_at"))
REMOVE = statement(InvoicesAsked.delete().where(InvoicesAsked.id == p.id))


async def ever_paid(tx: Tx, customer_ids: list[str]) -> bool:
    """Return whether an account has ever paid more than 0. `customer_ids` are the caller's ids."""
    return await tx.fetchval(SQL["ever_paid"], customer_ids) is not None


async def hold_address(tx: Tx, address: str) -> None:
    """Lock an address until the transaction ends, so that its invoices are counted one at a time.

    Take this lock last: a transaction that holds it must not wait for another lock.
    """
    await locks.hold(tx, AdvisoryLock.INVOICES_OF_ADDRESS, address)


async def account_full_until(tx: Tx, customer_ids: list[str], *, most: int) -> dt.datetime | None:
    """Return when an account may have its next invoice, or None if it may have one now.

    `most` is the limit; 0 means unlimited.
    """
    if not most:
        return None
    oldest = await tx.fetchval(SQL["asked_by_account"], customer_ids, tx.now - WINDOW, most - 1)
    return None if oldest is None else oldest + WINDOW


async def address_full_until(tx: Tx, address: str, *, has_paid: bool, most: int) -> dt.datetime | None:
    """Return when an address may have its next invoice, or None if it may have one now.

    Accounts that paid before, and those that did not, are counted separately. `most` is the limit; 0 means unlimited.
    """
    if not most:
        return None
    oldest = await tx.fetchval(SQL["asked_by_address"], address, tx.now - WINDOW, most - 1, has_paid)
    return None if oldest is None else oldest + WINDOW


async def add(tx: Tx, *, payment_request_id: str, customer_id: str, address: str, has_paid: bool) -> None:
    """Count the invoice of a request. `has_paid`: the account paid before."""
    await ADD.execute(
        tx, id=payment_request_id, customer_id=customer_id, address=address, has_paid=has_paid, asked_at=tx.now
    )


async def remove(tx: Tx, payment_request_id: str) -> None:
    """Remove the count of a request, because its invoice was not made."""
    await REMOVE.execute(tx, id=payment_request_id)


async def purge(tx: Tx) -> int:
    """Delete counts older than WINDOW, at most PURGED_AT_ONCE; return how many."""
    return await tx.execute(PURGE, tx.now - WINDOW)
