"""Promise a customer how long they wait for a mitra (docs/fairness.md#honest-promise)."""

from core.pairing.promises import rules
from core.pairing.promises import store as promises
from core.storage.transaction import Tx
from core.telemetry import metrics


async def make(tx: Tx, payment_request_id: str) -> None:
    """Store what the customer of a new request to all mitras is promised; nothing if there is no estimate."""
    estimate = await promises.estimate_for(tx, rules.hour_of(tx.now))
    promise = rules.promise(estimate, now=tx.now)
    if promise is not None:
        await promises.keep(tx, payment_request_id, promise)
        tx.count(metrics.PROMISES.labels("shown" if promise.is_shown else "withheld"))
