"""Write earned money to the ledger (docs/product.md#ledger)."""

from core.base import ids
from core.payments.ledger.tables import CustomerTransaction as Transactions
from core.storage.statements import insert, p, statement
from core.storage.transaction import Tx

EARN = statement(insert(Transactions, "id customer_id session_id payment_request_id type amount created_at"))
EARNED = statement(
    Transactions.select(Transactions.customer_id, Transactions.session_id).where(
        Transactions.payment_request_id == p.payment_request_id, Transactions.type != "refund"
    )
)
REFUND = statement(
    insert(Transactions, "id customer_id session_id payment_request_id refund_id amount created_at", type="refund")
)


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


async def refund(tx: Tx, *, payment_request_id: str, refund_id: str, amount: int) -> None:
    """Insert the transaction of a refund of earned money. `amount` is a positive number of Rupiah."""
    earned = await EARNED.one(tx, payment_request_id=payment_request_id)
    await REFUND.execute(
        tx,
        id=ids.new_id(),
        customer_id=earned["customer_id"],
        session_id=earned["session_id"],
        payment_request_id=payment_request_id,
        refund_id=refund_id,
        amount=-amount,
        created_at=tx.now,
    )
