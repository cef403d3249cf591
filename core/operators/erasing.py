"""Blank the personal fields of the audit log (docs/product.md#audit-log)."""

from core.storage.transaction import Tx

BLANK = "SELECT blank_operator_audit_log($1::uuid)"


async def blank_audit_log(tx: Tx, user_id: str) -> None:
    """Blank the personal fields of the rows about a customer, their sessions and payments, or about a mitra."""
    await tx.execute(BLANK, user_id)
