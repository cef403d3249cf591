"""Apply what the gateway says about a refund, by webhook or when asked (docs/product.md#refunds).

core/payments/refunds/rules.py judges a report. Each function first locks the failure, or the payment if its money
was earned, so the order in which reports arrive does not matter.
"""

import attrs

from core.accounts.customers import erasing
from core.base import ids
from core.deliveries import events
from core.payments import announce as announce_payments
from core.payments import payer_data
from core.payments import store as payments
from core.payments.failures import store as failures
from core.payments.failures.rules import OperatorAction
from core.payments.failures.store import Failure
from core.payments.gateway_calls import CallCase, Judgement, RefundCall, RefundStateThere
from core.payments.ledger import store as ledger
from core.payments.refunds import rules, store, transitions
from core.payments.refunds.rules import AMOUNT_DIFFERS, JudgedRefund
from core.payments.refunds.states import RefundStatus
from core.payments.refunds.store import Refund
from core.payments.store import PaymentRequest
from core.storage.transaction import Tx
from core.telemetry import logs, metrics

log = logs.get("refunds")
metrics.start_at_zero(metrics.REFUNDS, ("requested", "succeeded", "declined", "failed", "by_hand"))


@attrs.frozen(kw_only=True)
class _Locked:
    """A refund whose failure is locked; without a failure, its payment is."""

    refund: Refund
    failure: Failure | None
    payment: PaymentRequest


async def apply(tx: Tx, report: RefundCall) -> Judgement:
    """Judge a report of the webhook and apply its effect.

    After a conflict the gateway is asked, because the call may be old or wrong.
    """
    locked = await _lock(tx, report.reference)
    if locked is None:
        return await _judge_earlier(tx, report)
    case = await _apply(tx, locked, report)
    if case is CallCase.CONFLICT:
        if locked.refund.is_open:
            events.deadline(tx, await store.ask_now(tx, locked.refund.id))
        note = "the refund is not the one that was asked for, or was decided before"
        return Judgement(case=case, note=note)
    return Judgement(case=case)


async def _judge_earlier(tx: Tx, report: RefundCall) -> Judgement:
    """Judge a call that names no refund of ours. It may name an attempt that had failed, before another one."""
    if not await store.was_named(tx, report.reference):
        return Judgement(case=CallCase.UNKNOWN, note="the service has not asked for this refund")
    if report.state is RefundStateThere.SUCCEEDED:
        note = "an earlier try has succeeded after all: the customer may get the money twice"
        return Judgement(case=CallCase.CONFLICT, note=note)
    return Judgement(case=CallCase.DUPLICATE)


async def apply_polled(tx: Tx, report: RefundCall) -> CallCase:
    """Judge the gateway's answer and apply its effect.

    A refund of another amount ends the open one as failed and is logged as a conflict: an operator must look at it.
    """
    locked = await _lock(tx, report.reference)
    assert locked is not None
    refund = locked.refund
    case = await _apply(tx, locked, report)
    if case is CallCase.CONFLICT and refund.is_open and refund.gateway_refund_id in (None, report.refund_id):
        await _keep_conflict(tx, report)
        await transitions.fail(tx, refund.id, gateway_refund_id=report.refund_id, failure_code=AMOUNT_DIFFERS)
        await _tell(tx, locked.payment, "failed")
    return case


async def decline(tx: Tx, *, name_there: str, attempt: int, code: str) -> None:
    """End a requested refund, because the gateway refuses to make it."""
    locked = await _lock(tx, name_there)
    assert locked is not None
    if await transitions.decline(tx, locked.refund.id, attempt=attempt, failure_code=code):
        await _tell(tx, locked.payment, "declined")


async def _lock(tx: Tx, name_there: str) -> _Locked | None:
    found = await store.named(tx, name_there)
    if found is None:
        return None
    failure = None if found.failure_id is None else await failures.lock(tx, found.failure_id)
    lock_or_get = payments.lock if failure is None else payments.get
    payment, refund = await lock_or_get(tx, found.payment_request_id), await store.get(tx, found.id)
    assert payment is not None
    assert refund is not None
    return _Locked(refund=refund, failure=failure, payment=payment)


async def _is_undecided(tx: Tx, locked: _Locked) -> bool:
    """Return whether the money has not gone back in another way, and has not been used for another try."""
    if locked.failure is not None:
        return locked.failure.operator_action is None and locked.failure.superseded_at is None
    others = [one for one in await store.of_earned(tx, locked.payment.id) if one.id != locked.refund.id]
    return locked.refund.amount <= store.left_of(locked.payment.amount, others)


async def _apply(tx: Tx, locked: _Locked, report: RefundCall) -> CallCase:
    refund = locked.refund
    ours = JudgedRefund(
        status=refund.status,
        amount=refund.amount,
        gateway_refund_id=refund.gateway_refund_id,
        is_undecided=await _is_undecided(tx, locked),
    )
    case = rules.judge(report, ours)
    if case is CallCase.REFUND_SUCCEEDED:
        await transitions.succeed(tx, refund.id, gateway_refund_id=report.refund_id)
        await _settle(tx, locked)
        await _tell(tx, locked.payment, "succeeded")
    elif case is CallCase.REFUND_FAILED:
        code = report.failure_code or rules.UNNAMED
        await transitions.fail(tx, refund.id, gateway_refund_id=report.refund_id, failure_code=code)
        await _tell(tx, locked.payment, "failed")
    elif (
        case is CallCase.IGNORED_STATUS
        and report.state is RefundStateThere.PENDING
        and refund.status is RefundStatus.REQUESTED
    ):
        await transitions.pend(tx, refund.id, gateway_refund_id=report.refund_id)
    return case


async def _settle(tx: Tx, locked: _Locked) -> None:
    """Record that a refund has succeeded: as the operator's action on its failure, or in the ledger."""
    refund = locked.refund
    if locked.failure is None:
        await ledger.refund(tx, payment_request_id=refund.payment_request_id, refund_id=refund.id, amount=refund.amount)
        return
    acted = await failures.act(
        tx, locked.failure.id, OperatorAction.REFUNDED, operator_id=refund.requested_by, note=None
    )
    assert acted is not None


async def _tell(tx: Tx, payment: PaymentRequest, outcome: str) -> None:
    """Count the outcome of a refund, and tell the customer."""
    tx.count(metrics.REFUNDS.labels(outcome))
    await tell_customer(tx, payment)


async def tell_customer(tx: Tx, payment: PaymentRequest) -> None:
    """Send the customer the state of their payment, unless they are erased: then no row may follow."""
    if not await erasing.is_erased(tx, payment.customer_id):
        await announce_payments.payment_updated(tx, [payment])


async def _keep_conflict(tx: Tx, report: RefundCall) -> None:
    """Log a refund that was found and does not fit."""
    row = await payer_data.row_of_answer(
        tx, report.body, log_id=ids.new_id(), external_id=report.reference, invoice_id=report.refund_id
    )
    await payer_data.log_conflict(tx, row, "the refund has another amount than was asked for")
