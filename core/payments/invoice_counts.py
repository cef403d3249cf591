"""Invoices of the last hour that were made for accounts that never paid: what their limits are counted from."""

import datetime as dt

from core.storage.database import Tx

WINDOW = dt.timedelta(hours=1)
PURGED_AT_ONCE = 5_000


async def ever_paid(tx: Tx, customer_ids: list[str]) -> bool:
    """Whether an account has ever paid something."""
    sql = (
        "SELECT 1 FROM payment_requests WHERE customer_id = ANY($1) AND confirmed_at IS NOT NULL AND amount > 0 LIMIT 1"
    )
    return await tx.fetchval(sql, customer_ids) is not None


async def hold_address(tx: Tx, address: str) -> None:
    """Let the invoices of one address be counted one after the other. Held last: nothing is waited for behind it."""
    await tx.execute("SELECT pg_advisory_xact_lock(8, hashtext($1))", address)


async def account_full_until(tx: Tx, customer_ids: list[str], *, most: int) -> dt.datetime | None:
    """Return when an account may have its next invoice; None: now. `most` 0: no limit."""
    if not most:
        return None
    oldest = await tx.fetchval(
        """SELECT asked_at FROM invoices_asked WHERE customer_id = ANY($1) AND asked_at > $2
           ORDER BY asked_at DESC OFFSET $3 LIMIT 1""",
        customer_ids, tx.now - WINDOW, most - 1,
    )  # fmt: skip
    return None if oldest is None else oldest + WINDOW


async def address_full_until(tx: Tx, address: str, *, most: int) -> dt.datetime | None:
    """Return when an address may have its next invoice; None: now. `most` 0: no limit."""
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
    """Do not count a request whose invoice was not made."""
    await tx.execute("DELETE FROM invoices_asked WHERE id = $1", payment_request_id)


async def purge(tx: Tx) -> int:
    """Delete counts that no limit looks at; return how many."""
    return await tx.execute(
        f"""DELETE FROM invoices_asked WHERE id = ANY (ARRAY(
              SELECT id FROM invoices_asked WHERE asked_at <= $1 LIMIT {PURGED_AT_ONCE} FOR UPDATE SKIP LOCKED))""",
        tx.now - WINDOW,
    )
