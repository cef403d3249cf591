"""The metrics of a process, as Prometheus reads them."""

import re
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from core.telemetry.cluster_series import ALL

CLUSTER_NAMES = frozenset(series.name for series in ALL)
NAME = re.compile(r"^(?:# TYPE )?(\w+)", re.MULTILINE)  # of a metric, or of a sample
Samples = dict[str, dict[tuple[str, ...], float]]


def scrape(port: int) -> Samples:
    """Return the samples of a process: by name, then by the values of the labels in the order of their names."""
    found: Samples = {}
    for family in text_string_to_metric_families(_text(port)):
        found.setdefault(family.name, {})
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def cluster_names(port: int) -> set[str]:
    """Return the names of the cluster's metrics that a process exposes, also those without samples."""
    return set(CLUSTER_NAMES.intersection(NAME.findall(_text(port))))


def _text(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return answer.read().decode()
