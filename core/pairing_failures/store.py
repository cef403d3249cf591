"""Writes and locking reads of pairing failures."""

import attrs

from core.base import ids
from core.pairing_failures.causes import CauseTag
from core.pairing_failures.rules import OperatorAction
from core.storage.database import Tx
from core.storage.records import one


async def create(
    tx: Tx,
    *,
    payment_request_id: str,
    customer_id: str,
    targeted_mitra_id: str | None,
    cause_tag: str,
    amount: int,
) -> str:
    """Insert the one live failure of a payment request and return its id. `amount` is in Rupiah."""
    failure_id = ids.new_id()
    await tx.execute(
        """INSERT INTO pairing_failures (id, payment_request_id, customer_id, targeted_mitra_id, cause_tag, amount, created_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7)""",
        failure_id, payment_request_id, customer_id, targeted_mitra_id, cause_tag, amount, tx.now,
    )  # fmt: skip
    return failure_id


async def act(tx: Tx, failure_id: str, action: OperatorAction, *, operator_id: str) -> str | None:
    """Record an operator's action and return the id of the payment request.

    Return None for an unknown id, or if an operator has acted on it or it is superseded.
    """
    found = await tx.fetchval(
        """UPDATE pairing_failures SET operator_action = $2, actioned_by = $3, actioned_at = $4
           WHERE id = $1 AND operator_action IS NULL AND superseded_at IS NULL RETURNING payment_request_id""",
        failure_id, action.value, operator_id, tx.now,
    )  # fmt: skip
    return None if found is None else str(found)


@attrs.frozen(kw_only=True)
class Live:
    """The one failure of a payment request that is not superseded."""

    id: str
    cause_tag: CauseTag = attrs.field(converter=CauseTag)
    operator_action: str | None


async def lock_live(tx: Tx, payment_request_id: str) -> Live | None:
    """Read and lock a payment request's live failure, because an operator may be about to act on it.

    None without one.
    """
    row = await tx.fetchrow(
        """SELECT id, cause_tag, operator_action FROM pairing_failures WHERE payment_request_id = $1 AND superseded_at IS NULL
           FOR UPDATE""",
        payment_request_id,
    )
    return one(Live, row)


async def supersede(tx: Tx, failure_id: str) -> bool:
    """Mark a failure as superseded, because the customer tries again. It is never deleted.

    Return False if it is superseded already or an operator has acted on it.
    """
    return bool(
        await tx.execute(
            "UPDATE pairing_failures SET superseded_at = $2 WHERE id = $1 AND superseded_at IS NULL AND operator_action IS NULL",
            failure_id,
            tx.now,
        )
    )


async def state(tx: Tx, failure_id: str) -> tuple[str | None, bool] | None:
    """Return (operator action or None, whether it is superseded); None for an unknown id."""
    row = await tx.fetchrow("SELECT operator_action, superseded_at FROM pairing_failures WHERE id = $1", failure_id)
    return None if row is None else (row["operator_action"], row["superseded_at"] is not None)
