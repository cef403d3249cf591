"""Blank the personal fields of the audit log (docs/product.md#audit-log)."""

from collections.abc import Sequence

from core.storage.transaction import Tx

BLANK = "SELECT blank_operator_audit_log(id) FROM unnest($1::uuid[]) AS id"


async def blank_audit_log(tx: Tx, user_ids: Sequence[str]) -> None:
    """Blank the personal fields of the rows about customers, their sessions and payments, or about a mitra.

    An operator's write during the erasure may be committed after it, so this is repeated when such writes have ended.
    """
    await tx.execute(BLANK, user_ids)
