"""Write earned money to the ledger (docs/product.md#ledger)."""

from core.base import ids
from core.payments.ledger.tables import CustomerTransaction as Transactions
from core.storage.statements import insert, statement
from core.storage.transaction import Tx

EARN = statement(insert(Transactions, "id customer_id session_id payment_request_id type amount created_at"))


async def earn(tx: Tx, *, customer_id: str, session_id: str, payment_request_id: str, kind: str, amount: int) -> None:
    """Insert the one transaction of a consumed payment request. `kind` is session or extension, `amount` in Rupiah."""
    await EARN.execute(
        tx,
        id=ids.new_id(),
        customer_id=customer_id,
        session_id=session_id,
        payment_request_id=payment_request_id,
        type=kind,
        amount=amount,
        created_at=tx.now,
    )
