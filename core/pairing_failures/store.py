"""Writes of pairing failures."""

from core.base import ids
from core.pairing_failures.rules import OperatorAction
from core.storage.database import Tx


async def create(
    tx: Tx,
    *,
    payment_request_id: str,
    customer_id: str,
    targeted_mitra_id: str | None,
    cause_tag: str,
    amount: int,
) -> str:
    """Insert the one live failure of a payment request."""
    failure_id = ids.new_id()
    await tx.execute(
        """INSERT INTO pairing_failures (id, payment_request_id, customer_id, targeted_mitra_id, cause_tag, amount, created_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7)""",
        failure_id, payment_request_id, customer_id, targeted_mitra_id, cause_tag, amount, tx.now,
    )  # fmt: skip
    return failure_id


async def act(tx: Tx, failure_id: str, action: OperatorAction, *, operator_id: str) -> bool:
    """Set the operator's action, once."""
    return bool(
        await tx.execute(
            """UPDATE pairing_failures SET operator_action = $2, actioned_by = $3, actioned_at = $4
               WHERE id = $1 AND operator_action IS NULL AND superseded_at IS NULL""",
            failure_id,
            action.value,
            operator_id,
            tx.now,
        )
    )


async def state(tx: Tx, failure_id: str) -> tuple[str | None, bool] | None:
    """Return (operator_action, superseded); None when there is no such failure."""
    row = await tx.fetchrow("SELECT operator_action, superseded_at FROM pairing_failures WHERE id = $1", failure_id)
    return None if row is None else (row["operator_action"], row["superseded_at"] is not None)
