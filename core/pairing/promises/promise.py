"""Estimate how long customers wait for a mitra, and promise it (docs/fairness.md#honest-promise)."""

from core.base.id_ranges import first_id
from core.cluster import work_lease
from core.pairing import search
from core.pairing.promises import rules
from core.pairing.promises import store as promises
from core.pairing.promises.rules import Estimate
from core.runtime.container import Runtime
from core.storage.transaction import Tx
from core.telemetry import metrics

LEASE = "wait_estimates"
LEASE_S = 240.0  # service time; shorter than the pause of the sweep, so that another process can take over


async def make(tx: Tx, payment_request_id: str) -> None:
    """Store what the customer of a new request to all mitras is promised; nothing if there is no estimate."""
    estimate = await promises.estimate_for(tx, rules.hour_of(tx.now))
    promise = rules.promise(estimate, now=tx.now)
    if promise is not None:
        await promises.keep(tx, payment_request_id, promise)
        tx.count(metrics.PROMISES.labels("shown" if promise.is_shown else "withheld"))


async def refresh(runtime: Runtime) -> None:
    """Sweep: estimate the waits for the present hour of the day, in one process of the cluster."""
    if await work_lease.hold(runtime, LEASE, length_s=LEASE_S / runtime.settings.sesi_time_scale):
        await estimate(runtime)


async def estimate(runtime: Runtime) -> None:
    """Estimate the waits for the present hour of the day, and for the next one shortly before it begins."""
    now, longest = runtime.now(), search.limits(runtime.config).search
    verdict = await promises.judge(runtime.db, now=now)
    found = {
        hour: await promises.measure(runtime.db, rules.same_hours(hour, now=now, longest=longest))
        for hour in rules.hours_to_estimate(now)
    }
    async with runtime.transaction() as tx:
        for hour, waits in found.items():
            await promises.keep_estimate(tx, Estimate.of(hour, waits, verdict, at=now))


async def purge(runtime: Runtime) -> None:
    """Sweep: delete the promises whose retention has ended."""
    await runtime.in_batches(
        lambda tx: promises.purge(tx, end_id=first_id(runtime.clock.real_time(tx.now - promises.KEEP_FOR))),
        at_once=promises.AT_ONCE,
    )
