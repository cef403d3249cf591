"""An operator confirms a payment by hand (docs/product.md#how-a-payment-is-confirmed), because they have seen the
money, or accepts a short payment for what it is (docs/product.md#short-payments)."""

from core.accounts.customers import store as customers
from core.accounts.operators import store as operators
from core.base.actor import Actor
from core.base.errors import NotFound
from core.events.signals import InvoiceVoided
from core.payments import money, rules, store
from core.payments.failures import store as failures
from core.payments.failures.causes import CauseTag
from core.payments.failures.rules import FailureActioned
from core.payments.refunds import store as refunds
from core.payments.states import PaymentStatus
from core.payments.store import PaymentRequest
from core.runtime.container import Runtime
from core.storage.transaction import Tx


async def confirm(runtime: Runtime, actor: Actor, *, payment_request_id: str) -> None:
    """Confirm a pending payment, which starts its pairing. If no session may start, the payment fails instead.

    A short payment is accepted for what was paid. Raises NotFound, PaymentNotPending, and for a short payment
    FailureActioned, SessionInProgress.
    """
    async with runtime.transaction() as tx:
        first = await store.get(tx, payment_request_id)
        if first is None:
            raise NotFound
        account = await customers.lock_account(tx, first.customer_id)
        payment = await store.lock(tx, first.id)
        assert payment is not None
        if payment.status is PaymentStatus.PENDING:
            await _confirm(tx, actor, payment, account)
        else:
            await _accept(tx, actor, payment, account)


async def _confirm(tx: Tx, actor: Actor, payment: PaymentRequest, account: tuple[str, ...]) -> None:
    case = await money.record_seen(tx, payment, account)
    if payment.gateway_invoice_id is not None:  # the money was seen, so the open invoice must not be paid too
        tx.emit(InvoiceVoided(gateway_invoice_id=payment.gateway_invoice_id))
    await operators.audit(
        tx,
        actor.user_id,
        "payment.confirmed",
        "payment_request",
        payment.id,
        before={"status": payment.status.value},
        after={"result": case.result},
    )


async def _accept(tx: Tx, actor: Actor, payment: PaymentRequest, account: tuple[str, ...]) -> None:
    failure = await failures.lock_live(tx, payment.id)
    if failure is None or failure.cause_tag is not CauseTag.PAYMENT_SHORT:
        raise rules.PaymentNotPending
    refund = await refunds.of_failure(tx, failure.id)
    if failure.operator_action is not None or (refund is not None and refund.bars_another_try):
        raise FailureActioned
    in_progress = None if payment.is_extension else await store.in_progress(tx, list(account), but=payment.id)
    if in_progress is not None:
        raise rules.SessionInProgress(details=in_progress.details)
    if await money.obstacle(tx, payment, account) is not None:
        raise rules.PaymentNotPending
    await money.accept(tx, payment, failure_id=failure.id)
    await operators.audit(
        tx,
        actor.user_id,
        "payment.accepted_short",
        "payment_request",
        payment.id,
        before={"asked_amount": payment.asked_amount},
        after={"amount": payment.amount},
    )
