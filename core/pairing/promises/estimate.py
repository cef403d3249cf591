"""Estimate how long customers wait, and purge old promises (docs/fairness.md#honest-promise)."""

from core.base.id_ranges import first_id
from core.cluster.leases import store as leases
from core.pairing import search
from core.pairing.promises import rules
from core.pairing.promises import store as promises
from core.pairing.promises.rules import Estimate
from core.runtime.container import Runtime
from core.runtime.transactions import translate_db_errors

LEASE = "wait_estimates"
LEASE_S = 240.0  # service time; shorter than the pause of the sweep, so that another process can take over


async def refresh(runtime: Runtime) -> None:
    """Sweep: estimate the waits for the present hour of the day, in one process of the cluster."""
    length_s = LEASE_S / runtime.settings.sesi_time_scale
    with translate_db_errors():
        await leases.ensure(runtime.db, LEASE)
        held = await leases.hold(runtime.db, LEASE, node=runtime.node, length_s=length_s)
    if held:
        await estimate(runtime)


async def estimate(runtime: Runtime) -> None:
    """Estimate the waits for the present hour of the day, and for the next one shortly before it begins."""
    now, longest = runtime.now(), search.limits(runtime.config).search
    with translate_db_errors():
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
    while True:
        async with runtime.transaction() as tx:
            gone = await promises.purge(tx, end_id=first_id(runtime.clock.real_time(tx.now - promises.KEEP_FOR)))
        if gone < promises.AT_ONCE:
            return
