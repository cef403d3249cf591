"""Write earned money to the ledger (docs/product.md#ledger)."""

from core.base import ids
from core.storage.database import Tx


async def earn(tx: Tx, *, customer_id: str, session_id: str, payment_request_id: str, kind: str, amount: int) -> None:
    """Insert the one transaction of a consumed payment request. `kind` is session or extension, `amount` in Rupiah."""
    await tx.execute(
        """INSERT INTO customer_transactions (id, customer_id, session_id, payment_request_id, type, amount, created_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7)""",
        ids.new_id(), customer_id, session_id, payment_request_id, kind, amount, tx.now,
    )  # fmt: skip
