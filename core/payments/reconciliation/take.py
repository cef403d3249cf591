"""Take money that a comparison with the gateway has found (docs/operating.md#comparison-with-the-gateway)."""

from core.payments import gateway_events
from core.payments.gateway_calls import Case, read_invoice_call
from core.providers.gateway import Invoice
from core.runtime.container import Runtime


async def take(runtime: Runtime, invoice: Invoice) -> Case:
    """Apply a paid invoice as a poll of the gateway does. Money that does not fit is logged as a conflict.

    Raises Unavailable.
    """
    call = read_invoice_call(invoice.body, app_tag=runtime.settings.gateway_app_tag)
    async with runtime.transaction() as tx:
        return await gateway_events.apply_found(tx, invoice, call)
