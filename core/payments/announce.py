"""Send payment requests to their customers when they change (docs/events.md)."""

from core.accounts.logins import store as logins
from core.base.actor import Actor, UserType
from core.deliveries import events
from core.deliveries import store as deliveries
from core.payments import views
from core.payments.events import PaymentUpdated
from core.payments.store import PaymentRequest
from core.storage.transaction import Tx


async def payment_updated(tx: Tx, payments: list[PaymentRequest]) -> None:
    """Send payment requests to their customers, for changes that no other event reports."""
    if not payments:
        return
    customers = {payment.id: payment.customer_id for payment in payments}
    made = []
    for view in await views.by_ids(tx, list(customers)):
        to, event = [customers[view.payment_request_id]], PaymentUpdated(payment_request=view)
        made += await events.notices(tx, event, to, UserType.CUSTOMER)
    await deliveries.add(tx, made)


async def payment_abandoned(tx: Tx, by: Actor, payments: list[PaymentRequest]) -> None:
    """Send payment requests that a customer has abandoned on one device (`by`) if the customer has other devices."""
    if payments and await logins.has_another(tx, by):
        await payment_updated(tx, payments)
