"""An invoice that nobody should pay any more is voided; one that was paid just before is taken as money that came in.

The gateway does not repeat a call that found nobody (contract 4), so its refusal may be the only word of that money.
"""

import asyncio

from core.base import logs
from core.base.clock import real_sleep
from core.base.errors import GatewayUnavailable, Unavailable
from core.customers import store as customers
from core.outside.gateway import Invoice
from core.payments import rules
from core.payments import store as payments
from core.payments.rules import Case
from core.runtime import Runtime
from core.steps import calls

WAITS_S = 300.0  # for its turn and the gateway: behind so many others it is not worth while any more
PAUSES_S = (1.0, 4.0, 15.0, 60.0)
log = logs.get("payments")


async def void(runtime: Runtime, *, gateway_invoice_id: str) -> None:
    """Void an invoice, best effort: one that is paid later all the same comes in as late money. Raises Unavailable."""
    if runtime.gateway is None:
        return
    try:
        async with asyncio.timeout(WAITS_S), runtime.voids:
            if await runtime.gateway.void(gateway_invoice_id):
                return
            invoice = await runtime.gateway.get(gateway_invoice_id)
    except (GatewayUnavailable, TimeoutError):
        log.warning("an invoice could not be voided", gateway_invoice_id=gateway_invoice_id)
        return
    if invoice is None or invoice.status not in rules.PAID_STATUSES:
        return
    await _take_at_last(runtime, invoice)


async def _take_at_last(runtime: Runtime, invoice: Invoice) -> None:
    """Take the money, again when the database is away: the gateway may not tell of it again. Raises Unavailable."""
    for pause in PAUSES_S:
        try:
            return await _take(runtime, invoice)
        except Unavailable:
            await real_sleep(pause)
    return await _take(runtime, invoice)


async def _take(runtime: Runtime, invoice: Invoice) -> None:
    app_tag = runtime.settings.gateway_app_tag
    call = rules.read_call(invoice.body, app_tag=app_tag)
    async with runtime.transaction() as tx:
        first = None if isinstance(call, Case) else await payments.get(tx, call.external_id)
        if first is None:
            note = call.result if isinstance(call, Case) else Case.UNKNOWN.result
            await calls.keep_conflict(tx, invoice, payment_request_id=None, note=note)
            return
        account = await customers.lock_account(tx, first.customer_id)
        payment = await payments.lock(tx, first.id)
        assert payment is not None
        await calls.settle_polled(tx, payment, account, invoice, app_tag=app_tag)
