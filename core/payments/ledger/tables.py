"""The table of earned money: the ledger (docs/product.md#ledger)."""

from piccolo.constraints import Check
from piccolo.table import Table

from core.storage import columns


class CustomerTransaction(Table, tablename="customer_transactions", db=columns.ENGINE):
    """Money earned: one row for each consumed payment request, and a negative one for each refund of it."""

    id = columns.identifier()
    customer_id = columns.reference("Customer", owner=True)
    session_id = columns.reference("ChatSession")
    payment_request_id = columns.reference("PaymentRequest", null=True)
    refund_id = columns.plain_id()
    type = columns.string(20)
    amount = columns.number(default=0)
    created_at = columns.created()

    known_type = columns.words("type", ("session", "extension", "refund"))
    refund_is_negative = Check("(type = 'refund') = (amount < 0) AND (type = 'refund') = (refund_id IS NOT NULL)")
