"""Take money that a comparison with the gateway has found (docs/operating.md#comparison-with-the-gateway)."""

from core.payments.gateway_calls import Case
from core.providers.invoices import Invoice
from core.runtime import Runtime
from core.steps import gateway_events


async def take(runtime: Runtime, invoice: Invoice) -> Case:
    """Apply a paid invoice as a poll of the gateway does. Money that does not fit is logged as a conflict.

    Raises Unavailable.
    """
    async with runtime.transaction() as tx:
        return await gateway_events.apply_found(tx, invoice, app_tag=runtime.settings.gateway_app_tag)
