"""Apply what the gateway says about a refund, by webhook or when asked (docs/product.md#refunds).

core/payments/refunds/rules.py judges a report. Each function locks the failure first, so the order in which reports
arrive does not matter.
"""

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
from core.payments.refunds import rules, store, transitions
from core.payments.refunds.rules import AMOUNT_DIFFERS, JudgedRefund
from core.payments.refunds.states import RefundStatus
from core.payments.refunds.store import Refund
from core.payments.store import PaymentRequest
from core.storage.transaction import Tx
from core.telemetry import logs, metrics

log = logs.get("refunds")
metrics.start_at_zero(metrics.REFUNDS, ("requested", "succeeded", "declined", "failed"))


async def apply(tx: Tx, report: RefundCall) -> Judgement:
    """Judge a report of the webhook and apply its effect.

    After a conflict the gateway is asked, because the call may be old or wrong.
    """
    failure, refund = await _lock(tx, report.failure_id)
    if failure is None or refund is None:
        return Judgement(case=CallCase.UNKNOWN, note="the service has not asked for this refund")
    case = await _apply(tx, failure, refund, report)
    if case is CallCase.CONFLICT:
        if refund.is_open:
            events.deadline(tx, await store.ask_now(tx, refund.id))
        note = "the refund is not the one that was asked for, or was decided before"
        return Judgement(case=case, note=note)
    return Judgement(case=case)


async def apply_polled(tx: Tx, report: RefundCall) -> CallCase:
    """Judge the gateway's answer and apply its effect.

    A refund of another amount ends the open one as failed and is logged as a conflict: an operator must look at it.
    """
    failure, refund = await _lock(tx, report.failure_id)
    assert failure is not None
    assert refund is not None
    case = await _apply(tx, failure, refund, report)
    if case is CallCase.CONFLICT and refund.is_open and refund.gateway_refund_id in (None, report.refund_id):
        await _keep_conflict(tx, report)
        await transitions.fail(tx, refund.id, gateway_refund_id=report.refund_id, failure_code=AMOUNT_DIFFERS)
        await _tell(tx, failure, "failed")
    return case


async def decline(tx: Tx, *, failure_id: str, attempt: int, code: str) -> None:
    """End a requested refund, because the gateway refuses to make it."""
    failure, refund = await _lock(tx, failure_id)
    assert failure is not None
    assert refund is not None
    if await transitions.decline(tx, refund.id, attempt=attempt, failure_code=code):
        await _tell(tx, failure, "declined")


async def _lock(tx: Tx, failure_id: str) -> tuple[Failure | None, Refund | None]:
    failure = await failures.lock(tx, failure_id)
    return failure, None if failure is None else await store.of_failure(tx, failure_id)


async def _apply(tx: Tx, failure: Failure, refund: Refund, report: RefundCall) -> CallCase:
    ours = JudgedRefund(
        status=refund.status,
        amount=refund.amount,
        gateway_refund_id=refund.gateway_refund_id,
        is_undecided=failure.operator_action is None and failure.superseded_at is None,
    )
    case = rules.judge(report, ours)
    if case is CallCase.REFUND_SUCCEEDED:
        await transitions.succeed(tx, refund.id, gateway_refund_id=report.refund_id)
        acted = await failures.act(tx, failure.id, OperatorAction.REFUNDED, operator_id=refund.requested_by, note=None)
        assert acted is not None
        await _tell(tx, failure, "succeeded")
    elif case is CallCase.REFUND_FAILED:
        code = report.failure_code or rules.UNNAMED
        await transitions.fail(tx, refund.id, gateway_refund_id=report.refund_id, failure_code=code)
        await _tell(tx, failure, "failed")
    elif (
        case is CallCase.IGNORED_STATUS
        and report.state is RefundStateThere.PENDING
        and refund.status is RefundStatus.REQUESTED
    ):
        await transitions.pend(tx, refund.id, gateway_refund_id=report.refund_id)
    return case


async def _tell(tx: Tx, failure: Failure, outcome: str) -> None:
    """Count the outcome of a refund, and tell the customer."""
    tx.count(metrics.REFUNDS.labels(outcome))
    payment = await payments.get(tx, failure.payment_request_id)
    assert payment is not None
    await tell_customer(tx, payment)


async def tell_customer(tx: Tx, payment: PaymentRequest) -> None:
    """Send the customer the state of their failed payment, unless they are erased: then no row may follow."""
    if not await erasing.is_erased(tx, payment.customer_id):
        await announce_payments.payment_updated(tx, [payment])


async def _keep_conflict(tx: Tx, report: RefundCall) -> None:
    """Log a refund that was found and does not fit."""
    row = await payer_data.row_of_answer(
        tx, report.body, log_id=ids.new_id(), external_id=report.failure_id, invoice_id=report.refund_id
    )
    await payer_data.log_conflict(tx, row, "the refund has another amount than was asked for")
