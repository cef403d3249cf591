"""Counts of the invoices made in the last hour for accounts that never paid.

They have limits (docs/product.md#payment-requests).
"""

import datetime as dt

from core.storage import locks
from core.storage.database import Tx
from core.storage.locks import AdvisoryLock

WINDOW = dt.timedelta(hours=1)
PURGED_AT_ONCE = 5_000


async def ever_paid(tx: Tx, customer_ids: list[str]) -> bool:
    """Return whether an account has ever paid more than 0. `customer_ids` are the caller's ids."""
    sql = (
        "SELECT 1 FROM payment_requests WHERE customer_id = ANY($1) AND confirmed_at IS NOT NULL AND amount > 0 LIMIT 1"
    )
    return await tx.fetchval(sql, customer_ids) is not None


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
    oldest = await tx.fetchval(
        """SELECT asked_at FROM invoices_asked WHERE customer_id = ANY($1) AND asked_at > $2
           ORDER BY asked_at DESC OFFSET $3 LIMIT 1""",
        customer_ids, tx.now - WINDOW, most - 1,
    )  # fmt: skip
    return None if oldest is None else oldest + WINDOW


async def address_full_until(tx: Tx, address: str, *, most: int) -> dt.datetime | None:
    """Return when an address may have its next invoice, or None if it may have one now.

    `most` is the limit; 0 means unlimited.
    """
    if not most:
        return None
    oldest = await tx.fetchval(
        """SELECT asked_at FROM invoices_asked WHERE address = $1 AND asked_at > $2
           ORDER BY asked_at DESC OFFSET $3 LIMIT 1""",
        address, tx.now - WINDOW, most - 1,
    )  # fmt: skip
    return None if oldest is None else oldest + WINDOW


async def add(tx: Tx, *, payment_request_id: str, customer_id: str, address: str) -> None:
    """Count the invoice of a request."""
    await tx.execute(
        "INSERT INTO invoices_asked (id, customer_id, address, asked_at) VALUES ($1, $2, $3, $4)",
        payment_request_id, customer_id, address, tx.now,
    )  # fmt: skip


async def remove(tx: Tx, payment_request_id: str) -> None:
    """Remove the count of a request, because its invoice was not made."""
    await tx.execute("DELETE FROM invoices_asked WHERE id = $1", payment_request_id)


async def purge(tx: Tx) -> int:
    """Delete counts older than WINDOW, at most PURGED_AT_ONCE; return how many."""
    return await tx.execute(
        f"""DELETE FROM invoices_asked WHERE id = ANY (ARRAY(
              SELECT id FROM invoices_asked WHERE asked_at <= $1 LIMIT {PURGED_AT_ONCE} FOR UPDATE SKIP LOCKED))""",
        tx.now - WINDOW,
    )
