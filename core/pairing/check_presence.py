"""Ask the phones of silent mitras for a heartbeat, by push (docs/product.md#presence-check).

The check and its pushes are stored in one transaction; the push flow sends them. All processes share one budget: a
lease of PACE_S seconds, which the transaction takes before it claims mitras.

The database functions `presence_check_due` and `next_presence_check` (piccolo_migrations/0002_functions.sql)
say which mitras are asked, and when; tests/flows/test_presence_checks.py compares them with `due_at`.
"""

import datetime as dt
from collections.abc import Sequence

import attrs

from core.accounts.mitras.rules import Configuration
from core.base import ids
from core.base.clock import monotonic, real_sleep
from core.base.field_types import MitraId
from core.cluster.leases import store as leases
from core.deliveries.pushes.plan import DuePush, plan
from core.deliveries.pushes.rules import presence_check
from core.runtime.container import Runtime
from core.storage import sql_files
from core.storage.records import many
from core.storage.transaction import Reader, Tx
from core.telemetry import metrics

# Service seconds. While a check is unanswered, the next one comes after PAUSE_S. ANSWER_S is the time for the answer if
# heartbeats are not required.
PAUSE_S = 600.0
ANSWER_S = 60.0
# The budget of the whole service: at most AT_ONCE mitras are asked within PACE_S seconds of real time, also after an
# outage in which thousands fell silent.
AT_ONCE = 10
PACE_S = 0.1
PASSED_AT_ONCE = 500
LEASE = "presence_checks"

SQL = sql_files.load(__file__)


@attrs.frozen(kw_only=True)
class CheckPolicy:
    """When a silent mitra is asked, in service seconds without a sign of life.

    `stale_after_s` is the silence after which a mitra is taken offline, if heartbeats are required.
    """

    silence_s: float
    stale_after_s: float
    require_ping: bool


def check_policy(config: Configuration, *, cadence_s: float) -> CheckPolicy:
    """Return the policy as it is configured now: halfway between the cadence and the end of the mitra's presence."""
    stale_after_s = config.seconds("mitra_stale_after_seconds").total_seconds()
    return CheckPolicy(
        silence_s=(cadence_s + stale_after_s) / 2,
        stale_after_s=stale_after_s,
        require_ping=config.flag("require_mitra_ping"),
    )


def due_at(*, silent_since: dt.datetime, checked_at: dt.datetime | None, silence_s: float) -> dt.datetime:
    """Return when an online mitra's next check is due.

    A check is unanswered until a heartbeat follows it, or an outage that excuses the silence.
    """
    first = silent_since + dt.timedelta(seconds=silence_s)
    if checked_at is None or checked_at <= silent_since:
        return first
    return max(first, checked_at + dt.timedelta(seconds=PAUSE_S))


@attrs.frozen(kw_only=True)
class Check:
    """A recorded check. A heartbeat answers it until `ends_at`."""

    mitra_id: MitraId
    ends_at: dt.datetime


async def next_due(reader: Reader, policy: CheckPolicy, *, now: dt.datetime) -> dt.datetime | None:
    """Return when the earliest check is due; None while no mitra is online."""
    return await reader.fetchval(SQL["next"], now, policy.silence_s, PAUSE_S)


async def claim(tx: Tx, policy: CheckPolicy) -> list[Check]:
    """Record due checks of up to AT_ONCE mitras with a device that takes pushes. The caller sends the pushes."""
    rows = await tx.fetch(SQL["claim"], *_parameters(tx, policy), AT_ONCE, ANSWER_S)
    return many(Check, rows)


async def pass_over(tx: Tx, policy: CheckPolicy) -> Sequence[str]:
    """Record due checks that no push can make; return the reason of each: `no_token` or `too_late`."""
    rows = await tx.fetch(SQL["pass_over"], *_parameters(tx, policy), PASSED_AT_ONCE)
    return [row["reason"] for row in rows]


def _parameters(tx: Tx, policy: CheckPolicy) -> tuple[object, ...]:
    return tx.now, policy.silence_s, PAUSE_S, policy.stale_after_s, policy.require_ping


async def ask_silent(runtime: Runtime) -> None:
    """Ask the mitras whose check is due, up to the budget. After a full batch, of this process or of another one, wait
    until the next one may begin."""
    if not runtime.config.flag("reachability_probe"):
        return
    policy = check_policy(runtime.config, cadence_s=runtime.settings.mitra_heartbeat_cadence_seconds)
    async with runtime.transaction() as tx:
        passed_over = await pass_over(tx, policy)
        may_ask = await _take_budget(runtime, tx)
        taken = monotonic()
        asked = await claim(tx, policy) if may_ask else []
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
    now = runtime.clock.real_now()
    return await leases.claim_due(tx, LEASE, node=runtime.node, length_s=PACE_S, done_before=now)


def _push(runtime: Runtime, tx: Tx, check: Check) -> DuePush:
    ttl = (check.ends_at - tx.now) / runtime.clock.scale
    return DuePush(recipient_id=check.mitra_id, content=presence_check(check_id=ids.new_id(), ttl=ttl))
