"""The page of the metrics names every metric that a service exposes."""

from core.telemetry import cluster_series
from tools.pages import metrics_page


def test_every_series_of_the_cluster_is_on_the_page_once() -> None:
    text = metrics_page.parts()["of the cluster"]
    assert len({series.name for series in cluster_series.ALL}) == len(cluster_series.ALL)
    assert [series.name for series in cluster_series.ALL if text.count(f"| `{series.name}` |") != 1] == []
