"""Keep where a payment's trace goes on, so that later flows and other processes continue it (docs/traces.md).

Without traces these functions run no statement.
"""

from core.payments import store as payments
from core.storage.transaction import Reader, Tx
from core.telemetry import traces


async def keep_of_payment(tx: Tx, payment_request_id: str) -> None:
    """Store the current span's traceparent with a payment request: its pairing goes on from here."""
    if (parent := traces.traceparent()) is not None:
        await payments.keep_traceparent(tx, payment_request_id, parent)


async def of_payment(reader: Reader, payment_request_id: str) -> str | None:
    """Return the traceparent of a payment request's confirmation; None if it has none."""
    return await payments.traceparent(reader, payment_request_id) if traces.is_on() else None
