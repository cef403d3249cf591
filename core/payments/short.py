"""More money of a short payment: the gateway reports that the invoice has more than was recorded
(docs/product.md#short-payments).

Until an operator acts, the money belongs to the request. Then it is a separate failed request, because what was decided
stays. The callers hold the customer's account and the payment's lock.
"""

import attrs

from core.base import ids
from core.payments import announce, money
from core.payments import store as payments
from core.payments.failures import store as failures
from core.payments.failures.causes import CauseTag, SubCause, Why
from core.payments.failures.store import Live
from core.payments.refunds import store as refunds
from core.payments.states import PaymentStatus
from core.payments.store import PaymentRequest
from core.storage.transaction import Reader, Tx


async def lock_short_failure(tx: Tx, payment: PaymentRequest) -> Live | None:
    """Lock the failure of a short payment on which no operator has acted; None if one has, or has asked for a refund."""
    if payment.status is not PaymentStatus.FAILED_PAIRING:
        return None
    failure = await failures.lock_live(tx, payment.id)
    if failure is None or failure.cause_tag is not CauseTag.PAYMENT_SHORT or failure.operator_action is not None:
        return None
    return failure if await refunds.of_failure(tx, failure.id) is None else None


def _id_of_rest(payment: PaymentRequest, invoice_id: str, recorded: int) -> str:
    return ids.id_of(payment.created_at, f"{payment.id} {invoice_id} {recorded}".encode())


async def recorded(reader: Reader, payment: PaymentRequest, invoice_id: str) -> int:
    """Return how many Rupiah of a short payment's invoice the books have: of it and of the requests for the rest."""
    total = payment.amount
    while (rest := await payments.get(reader, _id_of_rest(payment, invoice_id, total))) is not None:
        total += rest.amount
    return total


def was_given_up(failure: Live) -> bool:
    """Return whether a short payment came after its request was abandoned: then the rest starts nothing, either."""
    return failure.sub_cause is SubCause.GIVEN_UP


async def grow(tx: Tx, payment: PaymentRequest, *, amount: int) -> None:
    """Record that `amount` Rupiah are there now, which is still less than was asked for. Raises MoneyMoved."""
    failure = await _lock(tx, payment)
    await _change(tx, payment, failure, Why(CauseTag.PAYMENT_SHORT, failure.sub_cause), amount=amount)


async def complete(tx: Tx, payment: PaymentRequest) -> None:
    """Confirm a request whose rest has come in time; its pairing follows the commit. Raises MoneyMoved."""
    await money.accept(tx, payment, failure_id=(await _lock(tx, payment)).id, amount=payment.asked_amount)


async def fail_whole(tx: Tx, payment: PaymentRequest, account: tuple[str, ...], *, is_late: bool) -> None:
    """Record that all money is there, but can't lead to a chat. Raises MoneyMoved."""
    assert payment.asked_amount is not None
    failure = await _lock(tx, payment)
    why = Why(money.cause_of_late_money(payment), SubCause.GIVEN_UP)
    if not was_given_up(failure):
        why = await money.why_failed(tx, payment, account, is_late=is_late)
    await _change(tx, payment, failure, why, amount=payment.asked_amount)


async def _lock(tx: Tx, payment: PaymentRequest) -> Live:
    failure = await failures.lock_live(tx, payment.id)
    assert failure is not None
    return failure


async def _change(tx: Tx, payment: PaymentRequest, failure: Live, why: Why, *, amount: int) -> None:
    await money.change_short(tx, payment, amount=amount)
    await failures.change(tx, failure.id, why, amount=amount)
    await announce.payment_updated(tx, [payment])


async def record_rest(tx: Tx, payment: PaymentRequest, *, paid: int, invoice_id: str) -> str:
    """Record the rest of a short payment that was decided as a separate failed request; return its id.

    `paid` is the whole sum. The invoice stays with the first request, which may have a refund under way.
    """
    before = await recorded(tx, payment, invoice_id)
    rest = attrs.evolve(
        payment,
        id=_id_of_rest(payment, invoice_id, before),
        amount=paid - before,
        asked_amount=None,
        is_first_session_discount=False,
        created_at=tx.now,
        confirmed_at=tx.now,
        gateway_invoice_id=None,
    )
    await money.record_twin(tx, rest, of=payment.id)
    return rest.id
