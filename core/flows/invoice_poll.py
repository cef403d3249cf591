"""The gateway is asked about pending requests: its webhook call about their money may be lost.

The jobs ask some minutes after an invoice was made (`POLL_AFTER`). These moments are stored, so no restart loses one; a
process that dies while it asks leaves the request to the next poll, or to the sweep at the request's deadline. What a
customer reads is asked about in the background, within limits that all processes share.

The answer has the same effect as the gateway's call would have, under the same locks, so it does not matter which is first.
"""

import asyncio

from core.base import logs
from core.base.clock import real_sleep
from core.base.errors import GatewayUnavailable, Unavailable
from core.bus.rate_limit import Charge, Limit, RateLimited
from core.customers import store as customers
from core.outside.gateway import Gateway, Invoice
from core.payments import rules
from core.payments import store as payments
from core.payments.states import PaymentStatus
from core.payments.store import PaymentRequest
from core.payments.views import PaymentView
from core.runtime import ERRANDS, Runtime
from core.steps import calls

# After reads: an app may read every second, and the gateway limits us.
OF_REQUEST = Limit(name="invoice_polls_request", per_minute=6, burst=1)
OF_SERVICE = Limit(name="invoice_polls", per_minute=1_200, burst=20)
log = logs.get("payments")


async def poll_due(runtime: Runtime) -> int:
    """Ask about the requests whose time has come; return how many were asked about.

    While the gateway does not answer they stay due.
    """
    gateway = runtime.gateway
    if gateway is None:
        return 0
    if wait_s := gateway.poll_wait_s():
        await real_sleep(wait_s)
        return 0
    async with runtime.transaction() as tx:
        # No more than are asked about at once: those that were taken when a process dies are not asked about again.
        taken = await payments.take_polls(tx, limit=ERRANDS)
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(_poll(runtime, gateway, payment)) for payment in taken]
    left = [payment.id for payment, was_asked in zip(taken, asked, strict=True) if not was_asked.result()]
    if left:
        async with runtime.transaction() as tx:
            await payments.give_polls_back(tx, left)
    return len(taken) - len(left)


def after_reading(runtime: Runtime, view: PaymentView) -> None:
    """Ask in the background about a pending request that its customer has just read; the caller does not wait."""
    gateway = runtime.gateway
    if gateway is None or view.status != PaymentStatus.PENDING or gateway.poll_wait_s() or runtime.errands.locked():
        return
    runtime.follow(_poll_read(runtime, gateway, view.payment_request_id))


async def _poll_read(runtime: Runtime, gateway: Gateway, payment_request_id: str) -> None:
    try:
        await runtime.charge((Charge(OF_REQUEST, payment_request_id), Charge(OF_SERVICE, "all")))
    except RateLimited:
        return
    payment = await payments.get(runtime.db, payment_request_id)
    if payment is not None:
        await _poll(runtime, gateway, payment)


async def _poll(runtime: Runtime, gateway: Gateway, payment: PaymentRequest) -> bool:
    """Ask about one request and act on the answer. False when the gateway is left alone: then it was not asked."""
    if payment.gateway_invoice_id is None:
        return True
    async with runtime.errands:
        if not gateway.may_poll():
            return False
        try:
            invoice = await gateway.poll(payment.gateway_invoice_id)
            if invoice is not None and (invoice.status in rules.PAID_STATUSES or invoice.status == "EXPIRED"):
                await _settle(runtime, payment, invoice)
        except (GatewayUnavailable, Unavailable):
            log.warning("a poll of the gateway came to nothing", payment_request_id=payment.id)
        except Exception:  # one request must not keep the others from their answer
            log.exception("a poll could not be settled", payment_request_id=payment.id)
    return True


async def _settle(runtime: Runtime, payment: PaymentRequest, invoice: Invoice) -> None:
    async with runtime.transaction() as tx:
        account = await customers.lock_account(tx, payment.customer_id)
        locked = await payments.lock(tx, payment.id)
        assert locked is not None
        await calls.settle_polled(tx, locked, account, invoice, app_tag=runtime.settings.gateway_app_tag)
