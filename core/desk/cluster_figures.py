"""The figures of the cluster for its metrics.

They are read from the primary: on a replica, work that is done would still look overdue.
"""

import datetime as dt

from core.accounts.mitras.rules import availability_policy
from core.cluster.leases import store as leases
from core.desk import present
from core.desk.audits import store as audits
from core.desk.audits.rules import Depth, lease_of
from core.desk.ledger.audit_rules import RULES
from core.pairing.promises import store as promises
from core.pairing.promises.rules import is_withdrawn
from core.payments.failures.causes import CauseTag
from core.runtime.container import Runtime
from core.runtime.transactions import translate_db_errors
from core.telemetry import cluster_series as series
from core.telemetry.cluster_series import Figures


async def cluster_figures(runtime: Runtime) -> Figures:
    """Return the figures of the cluster. Every label has a value, 0 for none. Raises Unavailable."""
    with translate_db_errors():
        return await _read(runtime)


async def _read(runtime: Runtime) -> Figures:
    now, real_now, db = runtime.now(), runtime.clock.real_now(), runtime.db
    work = await present.present(db, availability_policy(runtime.config), now=now)
    due = dt.timedelta(hours=runtime.config.number("failure_due_hours"))
    refunds = await present.refunds(db, now=now, due=due)
    late = await present.overdue(db, now=now)
    broken = await audits.violations(db)
    finished = await leases.finished(db, [lease_of(depth) for depth in Depth])
    estimate = await promises.newest_estimate(db)
    judged, missed = (estimate.judged, estimate.missed) if estimate else (0, 0)
    failures = {one.cause: one for one in work.failures}
    causes = [tag.value for tag in CauseTag]
    oldest_at = present.oldest_at(work.failures)
    return {
        series.FAILURES_OPEN: {(cause,): failures[cause].count if cause in failures else 0 for cause in causes},
        series.FAILURES_OPEN_AMOUNT: {(cause,): failures[cause].amount if cause in failures else 0 for cause in causes},
        series.FAILURES_OLDEST: {(): max(0.0, (now - oldest_at).total_seconds()) if oldest_at else 0.0},
        series.FAILURES_OVERDUE: {(): refunds.overdue},
        series.REFUNDS_OPEN: {(): refunds.open},
        series.REFUNDS_OLDEST: {(): max(0.0, refunds.oldest_seconds)},
        series.SEARCHES: {(mode,): count for mode, count in work.searches.items()},
        series.MITRAS: {(state,): count for state, count in work.mitras.items()},
        series.SESSIONS: {(status.value,): count for status, count in work.sessions.items()},
        series.PAYMENT_REQUESTS: {(status.value,): count for status, count in work.payments.items()},
        series.OVERDUE: {(one.name,): one.overdue for one in late},
        series.OVERDUE_OLDEST: {(one.name,): one.late_seconds for one in late},
        series.AUDIT_VIOLATIONS: {(rule.name,): broken.get(rule.name, 0) for rule in RULES},
        series.AUDIT_FINISHED: {
            (depth.value,): finished[lease_of(depth)].timestamp() for depth in Depth if lease_of(depth) in finished
        },
        series.PROMISES_JUDGED: {(): judged},
        series.PROMISES_MISSED: {(): missed},
        series.PROMISES_WITHDRAWN: {(): float(is_withdrawn(judged, missed))},
        series.STANDBY_LAG: {(name,): lag for name, lag in (await present.standbys(db)).items()},
        series.LOG_UNARCHIVED: {(): await present.unarchived_seconds(db)},
        series.COLLECTED: {(): real_now.timestamp()},
    }
