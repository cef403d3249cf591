"""An operator confirms a payment directly, because she saw the money (specification, Payment request status; contract 4)."""

from core.base.actor import Actor
from core.base.errors import NotFound
from core.customers import store as customers
from core.events.signals import InvoiceVoided
from core.operators import store as operators
from core.payments import rules, store
from core.payments.states import PaymentStatus
from core.runtime import Runtime
from core.steps import money


async def confirm(runtime: Runtime, actor: Actor, *, payment_request_id: str) -> None:
    """pending -> confirmed, and the pairing starts; or failed, where no session may start any more.

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
        case = await money.take(tx, payment, account, late=False, invoice_id=None)
        if payment.gateway_invoice_id is not None:  # the money was seen: the open invoice must not bring it again
            tx.signal(InvoiceVoided(gateway_invoice_id=payment.gateway_invoice_id))
        await operators.audit(
            tx,
            operator_id=actor.user_id,
            action="payment.confirmed",
            object_type="payment_request",
            object_id=payment.id,
            before={"status": payment.status.value},
            after={"result": case.result},
        )
