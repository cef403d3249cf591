"""The metrics of the whole cluster, which one jobs process at a time exports (jobs/cluster_metrics.py)."""

from collections.abc import Iterator, Mapping

import attrs
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from core.base.clock import monotonic
from core.telemetry import metrics

STALE_S = 60.0  # real seconds; older figures are not served


@attrs.frozen
class ClusterSeries:
    """A gauge of the cluster: its name, what it says, and its labels."""

    name: str
    documentation: str
    labels: tuple[str, ...] = ()


FAILURES_OPEN = ClusterSeries(
    "sesi_failures_open", "Pairing failures without an operator's action that are not superseded.", ("cause",)
)
FAILURES_OPEN_AMOUNT = ClusterSeries("sesi_failures_open_amount", "The sum of their amounts, in Rupiah.", ("cause",))
FAILURES_OLDEST = ClusterSeries(
    "sesi_failures_oldest_seconds",
    "Age of the oldest open failure that is not put aside, in service time; 0 without one.",
)
FAILURES_OVERDUE = ClusterSeries(
    "sesi_failures_overdue",
    "Open failures that are older than `failure_due_hours`, without an open refund and not put aside.",
)
REFUNDS_OPEN = ClusterSeries("sesi_refunds_open", "Refunds whose result is not known yet.")
REFUNDS_OLDEST = ClusterSeries(
    "sesi_refunds_oldest_seconds", "Service time since the oldest open refund was asked for; 0 without one."
)
SEARCHES = ClusterSeries(
    "sesi_searches",
    "Sessions that search for a mitra: `blast` asks every available mitra, `targeted` asks one.",
    ("mode",),
)
MITRAS = ClusterSeries(
    "sesi_mitras",
    "Active mitras: `offline`, `available` for a session, `full`, or `unavailable` (online, but silent for too long).",
    ("state",),
)
SESSIONS = ClusterSeries("sesi_sessions", "Sessions in each state that is not final.", ("status",))
PAYMENT_REQUESTS = ClusterSeries(
    "sesi_payment_requests", "Payment requests that are `pending` or `confirmed`: neither is final.", ("status",)
)
OVERDUE = ClusterSeries("sesi_overdue_work", "Timed work that is overdue, by kind.", ("kind",))
OVERDUE_OLDEST = ClusterSeries(
    "sesi_overdue_oldest_seconds", "Service time by which the oldest work of a kind is late; 0 if none is.", ("kind",)
)
AUDIT_VIOLATIONS = ClusterSeries(
    "sesi_audit_violations",
    "Rows that break a rule of the ledger audit, in the last run of the rule; 0 for a rule that has not run yet.",
    ("rule",),
)
AUDIT_FINISHED = ClusterSeries(
    "sesi_audit_finished_timestamp_seconds",
    "When the last audit finished: `cheap` checks the rules about open work, `full` all rules. Absent before the "
    "first.",
    ("depth",),
)
PROMISES_JUDGED = ClusterSeries(
    "sesi_promises_judged",
    "The newest promised waits whose time is over, at most 100 (docs/fairness.md#honest-promise).",
)
PROMISES_MISSED = ClusterSeries(
    "sesi_promises_missed", "Those of `sesi_promises_judged` in which no mitra accepted within the promised p90."
)
PROMISES_WITHDRAWN = ClusterSeries(
    "sesi_promises_withdrawn",
    "1 while no wait is promised, because more than a quarter of the judged promises were missed; else 0.",
)
STANDBY_LAG = ClusterSeries(
    "sesi_standby_lag_seconds",
    "Replay lag of each standby of the primary, by its application_name; absent without standbys.",
    ("standby",),
)
LOG_UNARCHIVED = ClusterSeries(
    "sesi_log_unarchived_seconds",
    "Real time since the primary archived a segment of its log, while a complete one waits; 0 if none does, or if the "
    "server archives nothing.",
)
COLLECTED = ClusterSeries(
    "sesi_cluster_collected_timestamp_seconds", "When these figures were last read, in real time."
)
ALL = (
    FAILURES_OPEN,
    FAILURES_OPEN_AMOUNT,
    FAILURES_OLDEST,
    FAILURES_OVERDUE,
    REFUNDS_OPEN,
    REFUNDS_OLDEST,
    SEARCHES,
    MITRAS,
    SESSIONS,
    PAYMENT_REQUESTS,
    OVERDUE,
    OVERDUE_OLDEST,
    AUDIT_VIOLATIONS,
    AUDIT_FINISHED,
    PROMISES_JUDGED,
    PROMISES_MISSED,
    PROMISES_WITHDRAWN,
    STANDBY_LAG,
    LOG_UNARCHIVED,
    COLLECTED,
)
# The values of each series by the values of its labels.
Figures = Mapping[ClusterSeries, Mapping[tuple[str, ...], float]]


class ClusterFigures(Collector):
    """The figures that this process exports: none, unless it has the lease and has read them lately."""

    def __init__(self) -> None:
        self._figures: Figures = {}
        self._read_at = self._held_until = float("-inf")

    @property
    def age_s(self) -> float:
        """Seconds since the figures were read; infinite without any."""
        return monotonic() - self._read_at

    def hold(self, *, until: float) -> None:
        """Export the figures until a moment (monotonic seconds), the end of the lease."""
        self._held_until = until

    def show(self, figures: Figures, *, read_at: float) -> None:
        """Export these figures, which were read at a moment (monotonic seconds)."""
        self._figures, self._read_at = figures, read_at

    def drop(self) -> None:
        """Export nothing, because this process may not have the lease."""
        self._figures, self._read_at, self._held_until = {}, float("-inf"), float("-inf")

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield every family without samples."""
        for series in ALL:
            yield GaugeMetricFamily(series.name, series.documentation, labels=series.labels)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the families with their samples; none after the lease or if the figures are old."""
        if self.age_s > STALE_S or monotonic() >= self._held_until:
            return
        for family, series in zip(self.describe(), ALL, strict=True):
            for labels, value in self._figures.get(series, {}).items():
                family.add_metric(labels, value)
            yield family


CLUSTER = ClusterFigures()
metrics.REGISTRY.register(CLUSTER)
