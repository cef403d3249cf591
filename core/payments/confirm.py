"""An operator who has seen the money confirms a payment by hand (docs/product.md#how-a-payment-is-confirmed)."""

from core.accounts.customers import store as customers
from core.accounts.operators import store as operators
from core.base.actor import Actor
from core.base.errors import NotFound
from core.events.signals import InvoiceVoided
from core.payments import money, rules, store
from core.payments.states import PaymentStatus
from core.runtime.container import Runtime


async def confirm(runtime: Runtime, actor: Actor, *, payment_request_id: str) -> None:
    """Confirm a pending payment, which starts its pairing. If no session may start, the payment fails instead.

    Raises NotFound, PaymentNotPending.
    """
    async with runtime.transaction() as tx:
        first = await store.get(tx, payment_request_id)
        if first is None:
            raise NotFound
        account = await customers.lock_account(tx, first.customer_id)
        payment = await store.lock(tx, first.id)
        if payment is None or payment.status is not PaymentStatus.PENDING:
            raise rules.PaymentNotPending
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
