"""Changes of a refund's status; core/payments/refunds/apply.py makes them, with the rows that each implies.

Each transition is one statement that names the expected state. The callers hold the lock of the failure, or that of
the payment whose earned money goes back.
"""

from core.base import ids
from core.payments.refunds.rules import NO_BALANCE
from core.payments.refunds.states import EDGES, RefundStatus
from core.payments.refunds.tables import Refund as Refunds
from core.storage.statements import insert, p, statement, transition
from core.storage.transaction import Tx

R = RefundStatus
CREATE = statement(
    insert(
        Refunds,
        "id payment_request_id failure_id amount reason requested_by requested_at ask_at created_at",
        status=R.REQUESTED,
    ).on_conflict(Refunds.failure_id, "DO NOTHING")
)
RECORD = statement(
    insert(
        Refunds,
        "id payment_request_id amount reason requested_by requested_at settled_at created_at hand_reference",
        status=R.SUCCEEDED,
        by_hand=True,
    )
)
REQUEST_AGAIN = statement(
    transition(
        Refunds,
        EDGES,
        [R.FAILED],
        R.REQUESTED,
        reason=p.reason,
        requested_by=p.operator_id,
        requested_at=p.now,
        attempt=p.attempt,
        gateway_refund_id=None,
        failure_code=None,
        asks=0,
        ask_at=p.now,
        settled_at=None,
    ).where((Refunds.gateway_refund_id.is_null()) | (Refunds.failure_code == NO_BALANCE))
)
PEND = statement(transition(Refunds, EDGES, [R.REQUESTED], R.PENDING, gateway_refund_id=p.gateway_refund_id))
SUCCEED = statement(
    transition(
        Refunds,
        EDGES,
        [R.REQUESTED, R.PENDING, R.FAILED],
        R.SUCCEEDED,
        gateway_refund_id=p.gateway_refund_id,
        failure_code=None,
        ask_at=None,
        settled_at=p.now,
    )
)
FAIL = statement(
    transition(
        Refunds,
        EDGES,
        [R.REQUESTED, R.PENDING],
        R.FAILED,
        gateway_refund_id=p.gateway_refund_id,
        failure_code=p.failure_code,
        ask_at=None,
        settled_at=p.now,
    )
)
DECLINE = statement(
    transition(
        Refunds, EDGES, [R.REQUESTED], R.FAILED, failure_code=p.failure_code, ask_at=None, settled_at=p.now
    ).where(Refunds.attempt == p.attempt)
)


async def request(
    tx: Tx, *, payment_request_id: str, failure_id: str | None, amount: int, reason: str | None, operator_id: str
) -> str:
    """Insert the refund of a failure, unless it has one, or a refund of earned money. Return its id."""
    refund_id = ids.new_id()
    await CREATE.execute(
        tx,
        id=refund_id,
        payment_request_id=payment_request_id,
        failure_id=failure_id,
        amount=amount,
        reason=reason,
        requested_by=operator_id,
        requested_at=tx.now,
        ask_at=tx.now,
        created_at=tx.now,
    )
    return refund_id


async def record(
    tx: Tx, *, payment_request_id: str, amount: int, reason: str | None, operator_id: str, reference: str | None
) -> str:
    """Insert a refund of earned money that an operator has made by hand. Return its id."""
    refund_id = ids.new_id()
    await RECORD.execute(
        tx,
        id=refund_id,
        payment_request_id=payment_request_id,
        amount=amount,
        reason=reason,
        requested_by=operator_id,
        requested_at=tx.now,
        settled_at=tx.now,
        created_at=tx.now,
        hand_reference=reference,
    )
    return refund_id


async def request_again(tx: Tx, refund_id: str, *, attempt: int, reason: str | None, operator_id: str) -> bool:
    """Move a failed refund to `requested`, as the attempt with this number, if the gateway can make it now."""
    return bool(
        await REQUEST_AGAIN.execute(
            tx, id=refund_id, attempt=attempt, reason=reason, operator_id=operator_id, now=tx.now
        )
    )


async def pend(tx: Tx, refund_id: str, *, gateway_refund_id: str) -> bool:
    """Move a requested refund to `pending`: the gateway has it."""
    return bool(await PEND.execute(tx, id=refund_id, gateway_refund_id=gateway_refund_id))


async def succeed(tx: Tx, refund_id: str, *, gateway_refund_id: str) -> bool:
    """Move a refund to `succeeded`."""
    return bool(await SUCCEED.execute(tx, id=refund_id, gateway_refund_id=gateway_refund_id, now=tx.now))


async def fail(tx: Tx, refund_id: str, *, gateway_refund_id: str, failure_code: str) -> bool:
    """Move an open refund that the gateway has to `failed`."""
    return bool(
        await FAIL.execute(tx, id=refund_id, gateway_refund_id=gateway_refund_id, failure_code=failure_code, now=tx.now)
    )


async def decline(tx: Tx, refund_id: str, *, attempt: int, failure_code: str) -> bool:
    """Move a requested refund to `failed`, because the gateway refused to make it.

    The refusal of an earlier attempt, which a slow process brings, changes nothing.
    """
    return bool(await DECLINE.execute(tx, id=refund_id, attempt=attempt, failure_code=failure_code, now=tx.now))
