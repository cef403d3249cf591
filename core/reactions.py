"""The one table: committed fact -> flow that follows in the same process.

If the process dies in between, the sweeps find the same work in the database.
"""

from collections.abc import Coroutine
from typing import Any

from core.events.signals import InvoiceVoided, MitrasFreed, PaymentConfirmed, Signal
from core.flows import extension_ask, pairing_advance, pairing_start
from core.runtime import Runtime


def react(runtime: Runtime, signal: Signal) -> Coroutine[Any, Any, None] | None:
    """Return the work that follows a fact; None when nothing does."""
    if isinstance(signal, PaymentConfirmed) and not signal.is_extension:
        return pairing_start.start(runtime, payment_request_id=signal.payment_request_id)
    if isinstance(signal, PaymentConfirmed):
        return extension_ask.ask(runtime, payment_request_id=signal.payment_request_id)
    if isinstance(signal, InvoiceVoided) and runtime.gateway is not None:
        return runtime.gateway.void(signal.gateway_invoice_id)
    if isinstance(signal, MitrasFreed):
        return pairing_advance.invite_free(runtime, mitra_ids=signal.mitra_ids)
    return None
