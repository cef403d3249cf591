"""The tables of docs/metrics.md: every metric that a process exposes."""

from collections.abc import Iterable, Iterator

from prometheus_client import metrics_core
from prometheus_client.metrics import MetricWrapperBase

from core.storage import pool  # its metrics are registered when it is imported
from core.telemetry import cluster_series
from core.telemetry.metrics import REGISTRY, ProcessUse
from jobs.cluster_metrics import LEASE_S, READ_S, RENEW_EVERY_S

CLUSTER = """
## Of the cluster

One jobs process at a time reads these figures from the primary every 15 s and exposes them; the others expose none of
them, so `max` over all processes is the value. If that process dies, another one takes over within {takeover:.0f} s.
One that can't renew its lease exposes them until it ends, and figures older than {stale:.0f} s are not exposed: alert when
`sesi_cluster_collected_timestamp_seconds` is absent.
"""
SUFFIXES = {"counter": "_total", "info": "_info"}
LABELS = {  # of the cluster: where the values of a label come from
    "cause": "a [cause tag](product.md#cause-tags)",
    "rule": "the name of a rule, as `sesi audit --rules` prints it",
}


def _described() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Yield (name, type, labels, meaning) of each metric of a process."""
    for collector in REGISTRY._collector_to_names:
        if isinstance(collector, MetricWrapperBase):
            (family,) = collector.describe()
            suffix = SUFFIXES.get(family.type, "")
            yield family.name + suffix, family.type, tuple(collector._labelnames), family.documentation
        elif isinstance(collector, pool.PoolUse | ProcessUse):
            for family in collector.describe():
                yield family.name + SUFFIXES.get(family.type, ""), family.type, _labels(family), family.documentation


def _labels(family: metrics_core.Metric) -> tuple[str, ...]:
    return tuple(getattr(family, "_labelnames", ()))


def _table(rows: Iterable[tuple[str, str, tuple[str, ...], str]]) -> str:
    lines = ["", "| metric | type | labels | meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {meaning} |"
        for name, kind, labels, meaning in sorted(rows)
    ]
    return "\n".join(lines) + "\n"


def _of_cluster() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    for series in cluster_series.ALL:
        notes = [f"`{label}` is {LABELS[label]}." for label in series.labels if label in LABELS]
        yield series.name, "gauge", series.labels, " ".join([series.documentation, *notes])


def names() -> set[str]:
    """Return the names of all metrics."""
    return {name for name, *_ in [*_described(), *_of_cluster()]}


def parts() -> dict[str, str]:
    """Return the parts of the page by their markers."""
    cluster = CLUSTER.format(takeover=LEASE_S + RENEW_EVERY_S + READ_S, stale=cluster_series.STALE_S)
    return {"of each process": _table(_described()), "of the cluster": cluster + _table(_of_cluster())}
