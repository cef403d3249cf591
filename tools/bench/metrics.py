"""Reads the metrics of a process of the service."""

import urllib.request

from prometheus_client.parser import text_string_to_metric_families


def total(port: int, name: str) -> float:
    """Return the sum over all labels of a metric, as /metrics on `port` gives it; 0 if there is no such metric."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    )
