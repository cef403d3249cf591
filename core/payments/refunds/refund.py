"""An operator refunds a failed pairing or earned money, and the jobs process asks the gateway until it is decided.

The row is committed before the gateway is called, by the jobs process alone. A process may die at any line: the row is
due again after a pause, and the gateway is first asked what it has. So it makes one refund for a failure.
"""

import functools
from typing import Any

import attrs

from core.accounts.customers import erasing
from core.accounts.operators import store as operators
from core.base import ids
from core.base.actor import Actor
from core.base.errors import GatewayUnavailable, NotFound, Unavailable
from core.deliveries import events
from core.payments import poll
from core.payments import store as payments
from core.payments.channels import ALLOWED, outlook
from core.payments.failures import store as failures
from core.payments.failures.rules import AlreadyActioned, FailureSuperseded
from core.payments.failures.store import Failure
from core.payments.gateway_calls import UnreadableCall, read_refund_call
from core.payments.refunds import apply, rules, store, transitions
from core.payments.refunds.rules import NotRefundable, RefundsDisabled
from core.payments.refunds.store import DueRefund, Refund
from core.payments.store import PaymentRequest
from core.providers.refunds import Declined, RefundGateway, WantedRefund, gateway_of
from core.runtime.container import Runtime
from core.storage.transaction import Tx
from core.telemetry import logs, metrics

log = logs.get("refunds")


@attrs.frozen(kw_only=True)
class UndecidedFailure:
    """A locked failure on which an operator acts, its refund, and what they wrote: None if the customer is erased."""

    failure: Failure
    payment: PaymentRequest
    refund: Refund | None
    words: str | None

    async def record(self, tx: Tx, actor: Actor, action: str, *, before: Any, after: Any) -> None:
        """Tell the customer, and write the audit row of what the operator did."""
        await apply.tell_customer(tx, self.payment)
        await operators.audit(tx, actor.user_id, action, "pairing_failure", self.failure.id, before=before, after=after)


async def lock_failure(tx: Tx, failure_id: str) -> Failure:
    """Lock a failure on which an operator may still act. Raises NotFound, FailureSuperseded, AlreadyActioned."""
    failure = await failures.lock(tx, failure_id)
    if failure is None:
        raise NotFound
    if failure.superseded_at is not None:
        raise FailureSuperseded
    if failure.operator_action is not None:
        raise AlreadyActioned
    return failure


async def lock_undecided(tx: Tx, failure_id: str, *, words: str | None) -> UndecidedFailure:
    """Lock a failure and read what an act on it needs. Raises NotFound, FailureSuperseded, AlreadyActioned."""
    failure = await lock_failure(tx, failure_id)
    refund = await store.of_failure(tx, failure_id)
    payment = await payments.get(tx, failure.payment_request_id)
    assert payment is not None
    words = await kept_words(tx, payment, words)
    return UndecidedFailure(failure=failure, payment=payment, refund=refund, words=words)


async def kept_words(tx: Tx, payment: PaymentRequest, words: str | None) -> str | None:
    """Return what an operator wrote about a payment; None if its customer is erased."""
    return None if words is None or await erasing.is_erased(tx, payment.customer_id) else words


async def request(runtime: Runtime, actor: Actor, *, failure_id: str, reason: str | None) -> None:
    """Ask for the refund of a failure. While it is open, asking again changes nothing.

    Raises RefundsDisabled, NotFound, AlreadyActioned, FailureSuperseded, NotRefundable, ValidationFailed.
    """
    words = rules.checked_note("reason", reason)
    check_enabled(runtime)
    async with runtime.transaction() as tx:
        undecided = await lock_undecided(tx, failure_id, words=words)
        refund, words, amount = undecided.refund, undecided.words, undecided.failure.amount
        if refund is not None and refund.is_open:
            return
        if refund is not None and not rules.may_try_again(
            gateway_refund_id=refund.gateway_refund_id, failure_code=refund.failure_code
        ):
            raise NotRefundable(details={"reason": "refund_failed"})
        await check_refundable(tx, undecided.payment.id)
        if refund is None:
            await transitions.request(
                tx,
                payment_request_id=undecided.payment.id,
                failure_id=failure_id,
                amount=amount,
                reason=words,
                operator_id=actor.user_id,
            )
        else:
            if refund.gateway_refund_id is not None:  # the one that has failed there keeps its reference
                await store.rename(tx, refund.id, ids.new_id())
            await transitions.request_again(
                tx, refund.id, attempt=refund.attempt + 1, reason=words, operator_id=actor.user_id
            )
        tx.count(metrics.REFUNDS.labels("requested"))
        events.deadline(tx, tx.now)
        await undecided.record(
            tx,
            actor,
            "failed_pairing.refund_requested",
            before={"refund": None if refund is None else refund.status.value},
            after={"refund": "requested", "amount": amount, "reason": words},
        )


def check_enabled(runtime: Runtime) -> None:
    """Raise RefundsDisabled if the service does not refund through the gateway."""
    if not runtime.settings.refunds_enabled or gateway_of(runtime.settings, runtime.gateway) is None:
        raise RefundsDisabled


async def check_refundable(tx: Tx, payment_request_id: str) -> None:
    """Raise NotRefundable if the gateway can't refund the payment."""
    paid = await store.paid(tx, payment_request_id)
    found = outlook(
        paid.payment_channel,
        amount=paid.amount,
        invoice_id=paid.gateway_invoice_id,
        paid_at=paid.confirmed_at,
        by_hand=paid.by_hand,
        now=tx.now,
    )
    if found.refundability not in ALLOWED:
        raise NotRefundable(details={"reason": found.refundability.value})


async def ask_due(runtime: Runtime) -> int:
    """Ask the gateway about the refunds that are due; return how many. While it does not answer, they stay due."""
    gateway = gateway_of(runtime.settings, runtime.gateway)
    if gateway is None:
        return 0
    return await poll.ask_due(
        runtime,
        wait_s=gateway.wait_s(),
        claim=store.claim_due,
        ask=functools.partial(_ask, runtime, gateway),
        give_back=store.give_back,
    )


async def _ask(runtime: Runtime, gateway: RefundGateway, due: DueRefund) -> bool:
    """Ask about one refund and apply the answer. Return False if the circuit breaker did not allow it."""
    if due.gateway_invoice_id is None:
        return True
    if not gateway.may_ask():
        return False
    app_tag = runtime.settings.gateway_app_tag
    wanted = WantedRefund(
        reference=due.name_there,
        invoice_id=due.gateway_invoice_id,
        refund_id=due.gateway_refund_id,
        amount=due.amount,
        app_tag=app_tag,
    )
    try:
        found = await gateway.ask(wanted)
        async with runtime.transaction() as tx:
            if isinstance(found, Declined):
                await apply.decline(tx, name_there=due.name_there, attempt=due.attempt, code=found.code)
                return True
            report = read_refund_call(found, app_tag=app_tag)
            if isinstance(report, UnreadableCall):
                log.error("the gateway's refund can't be read", reference=due.name_there, result=report.case.result)
            else:
                await apply.apply_polled(tx, report)
    except (GatewayUnavailable, Unavailable):
        log.warning("asking about a refund failed", reference=due.name_there)
    except Exception:  # one failure must not stop the others
        log.exception("processing the gateway's answer about a refund failed", reference=due.name_there)
    return True
