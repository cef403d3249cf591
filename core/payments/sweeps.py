"""The sweeps of payment requests: expire them, publish confirmed ones again, purge counts of invoices.

docs/product.md#payment-requests has the rules.
"""

import asyncio
import datetime as dt

from core.accounts.customers import store as customers
from core.base.errors import GatewayUnavailable, Unavailable
from core.events.signals import InvoiceVoided, PaymentConfirmed
from core.payments import gateway_calls, gateway_events, invoice_counts, money
from core.payments import store as payments
from core.payments.states import PaymentStatus
from core.payments.store import PaymentRequest
from core.providers.gateway import Gateway
from core.runtime.container import Runtime
from core.telemetry import logs, traces

log = logs.get("payments")


async def expire_stale(runtime: Runtime) -> dt.datetime | None:
    """Sweep: expire pending requests past their deadline.

    With the gateway enabled, the gateway is asked first, so that a payment whose webhook call was lost is confirmed.
    """
    if runtime.gateway is not None:
        await _ask_gateway(runtime, runtime.gateway)
        return None
    await runtime.in_batches(money.expire_due, at_once=payments.AT_ONCE)
    return None


async def _ask_gateway(runtime: Runtime, gateway: Gateway) -> None:
    """Ask the gateway about all due requests.

    One about which the gateway does not answer stays pending until the next sweep. All due requests are paged through,
    because those that stay pending are the oldest and must not hold up the others.
    """
    now, last = runtime.now(), None
    while due := await payments.due(runtime.db, now=now, limit=payments.AT_ONCE, after=last):
        await _settle_all(runtime, gateway, due)
        last = due[-1]


async def _settle_all(runtime: Runtime, gateway: Gateway, due: list[PaymentRequest]) -> None:
    async def settle(payment: PaymentRequest) -> None:
        async with runtime.gateway_slots:
            try:
                await _settle_due(runtime, gateway, payment)
            except (GatewayUnavailable, Unavailable):
                log.warning("the expiry of a payment request waits for the gateway", payment_request_id=payment.id)
            except Exception:  # one failure must not stop the others
                log.exception("expiring a payment request failed", payment_request_id=payment.id)

    async with asyncio.TaskGroup() as group:
        for payment in due:
            group.create_task(settle(payment))


async def _settle_due(runtime: Runtime, gateway: Gateway, payment: PaymentRequest) -> None:
    if payment.gateway_invoice_id is not None:
        invoice = await gateway.get(payment.gateway_invoice_id)
    else:
        invoice = await gateway.find(payment.id)
    async with runtime.transaction() as tx:
        account = await customers.lock_account(tx, payment.customer_id)
        locked = await payments.lock(tx, payment.id)
        if locked is None or locked.status is not PaymentStatus.PENDING or locked.expires_at > tx.now:
            return
        if invoice is not None and invoice.status in gateway_calls.PAID_STATUSES:
            # After a conflict the request stays pending and is reported as overdue: there is money that a person must
            # look at.
            await gateway_events.apply_polled(tx, locked, account, invoice, app_tag=runtime.settings.gateway_app_tag)
            return
        await money.expire(tx, locked)
        if invoice is not None and invoice.status == "PENDING":
            tx.emit(InvoiceVoided(gateway_invoice_id=invoice.id))


async def announce_again(runtime: Runtime) -> dt.datetime | None:
    """Sweep: publish `PaymentConfirmed` again for confirmed requests that have no session or extension."""
    settled = runtime.now() - dt.timedelta(seconds=2 * runtime.settings.sesi_time_scale)
    for payment in await payments.confirmed_without_chat(runtime.db, before=settled):
        parent = await payments.traceparent(runtime.db, payment.id) if traces.is_on() else None
        runtime.publisher.publish_signal(
            PaymentConfirmed(payment_request_id=payment.id, is_extension=payment.is_extension, traceparent=parent)
        )
    return None


async def purge_invoice_counts(runtime: Runtime) -> None:
    """Sweep: delete the counts of invoices made more than an hour ago."""
    await runtime.in_batches(invoice_counts.purge, at_once=invoice_counts.PURGED_AT_ONCE)
