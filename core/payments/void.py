"""Void an invoice that must no longer be paid. If it was paid just before, record the money.

The gateway does not repeat a webhook call that got no response, so its refusal may be the only sign of that money.
"""

import asyncio

from core.base.clock import real_sleep
from core.base.errors import GatewayUnavailable, Unavailable
from core.payments import gateway_calls, gateway_events
from core.payments.gateway_calls import CallCase
from core.providers.gateway import Invoice
from core.runtime.container import Runtime
from core.telemetry import logs

WAITS_S = 300.0  # waiting for a slot plus the call itself; after this long, give up
PAUSES_S = (1.0, 4.0, 15.0, 60.0)
log = logs.get("payments")


async def void(runtime: Runtime, *, gateway_invoice_id: str) -> None:
    """Void an invoice, as far as possible.

    An invoice that is paid anyway is treated as late money. Raises Unavailable.
    """
    if runtime.gateway is None:
        return
    try:
        async with asyncio.timeout(WAITS_S), runtime.void_slots:
            if await runtime.gateway.void(gateway_invoice_id):
                return
            invoice = await runtime.gateway.get(gateway_invoice_id)
    except (GatewayUnavailable, TimeoutError):
        log.warning("voiding an invoice failed", gateway_invoice_id=gateway_invoice_id)
        return
    if invoice is None or invoice.status not in gateway_calls.PAID_STATUSES:
        return
    await _apply_with_retries(runtime, invoice)


async def _apply_with_retries(runtime: Runtime, invoice: Invoice) -> None:
    """Record the money. Retry while the database is unavailable, because the gateway may not report it again.

    Raises Unavailable if all retries fail.
    """
    for pause in PAUSES_S:
        try:
            await take(runtime, invoice)
            return
        except Unavailable:
            await real_sleep(pause)
    await take(runtime, invoice)


async def take(runtime: Runtime, invoice: Invoice) -> CallCase:
    """Apply an invoice that the gateway returned: also one that a comparison has found. Raises Unavailable."""
    call = gateway_calls.read_invoice_call(invoice.body, app_tag=runtime.settings.gateway_app_tag)
    async with runtime.transaction() as tx:
        return await gateway_events.apply_found(tx, invoice, call)
