"""Ask the phones of silent mitras for a heartbeat, by push (docs/product.md#presence-check).

The check and its pushes are stored in one transaction; the push flow sends them. All processes share one budget: a
lease of PACE_S seconds, which the transaction takes before it claims mitras.
"""

from core.base import ids
from core.base.clock import monotonic, real_sleep
from core.cluster.leases import store as leases
from core.deliveries.pushes.plan import Due, plan
from core.deliveries.pushes.rules import presence_check
from core.pairing import presence_checks
from core.pairing.presence_checks import AT_ONCE, PACE_S, Check
from core.runtime.container import Runtime
from core.storage.transaction import Tx
from core.telemetry import metrics

LEASE = "presence_checks"


async def ask_silent(runtime: Runtime) -> None:
    """Ask the mitras whose check is due, up to the budget. After a full batch, of this process or of another one, wait
    until the next one may begin."""
    if not runtime.config.flag("reachability_probe"):
        return
    policy = presence_checks.check_policy(runtime.config, cadence_s=runtime.settings.mitra_heartbeat_cadence_seconds)
    async with runtime.transaction() as tx:
        passed_over = await presence_checks.pass_over(tx, policy)
        may_ask = await _take_budget(runtime, tx)
        taken = monotonic()
        asked = await presence_checks.claim(tx, policy) if may_ask else []
        await plan(tx, [_push(runtime, tx, check) for check in asked])
    for reason in passed_over:
        metrics.PRESENCE_CHECKS.labels(reason).inc()
    metrics.PRESENCE_CHECKS.labels("asked").inc(len(asked))
    if len(asked) == AT_ONCE:
        metrics.LIMITED.labels("presence_checks").inc()
    if not may_ask or len(asked) == AT_ONCE:
        await real_sleep(max(0.0, taken + PACE_S - monotonic()))


async def _take_budget(runtime: Runtime, tx: Tx) -> bool:
    """Take the lease for PACE_S; return False while it lasts."""
    await leases.ensure(tx, LEASE)
    return await leases.claim_due(tx, LEASE, node=runtime.node, length_s=PACE_S, done_before=tx.now)


def _push(runtime: Runtime, tx: Tx, check: Check) -> Due:
    ttl = (check.ends_at - tx.now) / runtime.clock.scale
    return Due(recipient_id=check.mitra_id, content=presence_check(check_id=ids.new_id(), ttl=ttl))
