"""Every series, label and word in the rules and dashboards exists on a running service.

Prometheus accepts a misspelt one: the alert would never fire, and the panel would stay empty.
"""

import re
import types
import urllib.request
from collections.abc import Iterable

import attrs
import pytest
from prometheus_client.parser import text_string_to_metric_families

import api.apps
import jobs.server
import realtime.server
from core.cluster.outages.rules import OutageKind
from core.desk.audits.rules import Depth
from core.sessions.states import SessionStatus
from core.telemetry import metrics
from tests.deploy.monitoring import Parsed, Query, parsed, queries_of_panels, queries_of_rules
from tests.deploy.programs import DEPLOY, ROOT, checkers_missing
from tests.stack import Stack, World
from tools.driving.service import PORT_OF

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(checkers_missing()), reason=checkers_missing())]
SERVERS = (api.apps, realtime.server, jobs.server)  # their modules declare the metrics of each process
# The scrape configuration sets these. Prometheus renames a label of ours that has the same name.
OF_TARGET = {"process", "instance", "job"}
PROCESSES = ("api", "realtime", "jobs")
# Series of the node exporter, and those that the units of deploy/pgbackrest write for it, with the labels that we read.
OF_DATABASE = {
    "node_filesystem_avail_bytes": {"fstype", "device", "process"},
    "node_filesystem_size_bytes": {"fstype", "device", "process"},
    "sesi_backup_finished_timestamp_seconds": {"type"},
    "sesi_restore_proof_finished_timestamp_seconds": set[str](),
}
PARTS = {"_total": "counter", "_bucket": "histogram", "_sum": "histogram", "_count": "histogram"}
# Words that need an incident, or more time, to appear: series -> label -> words.
WORDS: dict[str, dict[str, Iterable[str]]] = {
    "sesi_audit_finished_timestamp_seconds": {"depth": Depth},
    "sesi_http_requests_total": {"status": ("500", "503")},
    "sesi_limited_total": {
        "limit": re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "security.md").read_text(), re.MULTILINE)
    },
    "sesi_outage_open": {"kind": OutageKind},
    "sesi_sessions_ended_total": {"outcome": SessionStatus},
}
# Metrics that are on no dashboard and in no rule: they answer questions about others.
UNSHOWN = {
    "process_start_time_seconds", "process_virtual_memory_bytes", "sesi_absence_seconds", "sesi_bus_envelopes_skipped",
    "sesi_presence_check_pushes", "sesi_promises", "sesi_session_credits", "sesi_simulations", "sesi_trace_spans",
}  # fmt: skip


@attrs.frozen
class Series:
    """A series of the service: its type, and the values that each label has had."""

    kind: str
    labels: dict[str, set[str]]


def read_metrics(stack: Stack, process: str) -> str:
    """Return the metrics of a process."""
    with urllib.request.urlopen(f"http://127.0.0.1:{stack.ports[PORT_OF[process]]}/metrics", timeout=5) as answer:
        return answer.read().decode()


def exported(texts: Iterable[str]) -> dict[str, Series]:
    """Return the series in these metrics: name -> series. A family without samples has no labels."""
    found: dict[str, Series] = {}
    for text in texts:
        for family in text_string_to_metric_families(text):
            parts = [part for part, kind in PARTS.items() if kind == family.type] or [""]
            for part in parts:
                found.setdefault(family.name + part, Series(family.type, {}))
            for sample in family.samples:
                if sample.name in found:
                    for label, value in sample.labels.items():
                        found[sample.name].labels.setdefault(label, set()).add(value)
    return found


def declared() -> dict[str, tuple[str, ...]]:
    """Return the labels that the code declares for each metric: name -> labels."""
    assert all(isinstance(server, types.ModuleType) for server in SERVERS)
    families = [family for collector in metrics.REGISTRY._collector_to_names for family in collector.describe()]
    labels = {family.name: getattr(family, "_labelnames", ()) for family in families}
    wrappers = [one for one in vars(metrics).values() if hasattr(one, "_labelnames")]
    return labels | {one._name: tuple(one._labelnames) for one in wrappers}


def faults(
    found: Parsed, series: dict[str, Series], labels: dict[str, tuple[str, ...]], recorded: set[str]
) -> list[str]:
    """Return what an expression reads and the service does not have."""
    return [
        " ".join(["the service has no", problem])
        for name, label, words in found.reads
        if (problem := fault(name, label, words, series, labels, recorded))
    ]


def fault(
    name: str,
    label: str,
    words: list[str],
    series: dict[str, Series],
    labels: dict[str, tuple[str, ...]],
    recorded: set[str],
) -> str:
    """Return what is missing of a series, a label or its words; an empty text if nothing is."""
    if ":" in name:
        return "" if name in recorded else f"recording rule {name}"
    if name == "up":
        return "" if label in {"", *OF_TARGET} and set(words) <= set(PROCESSES) else f"target with {label} {words}"
    if name in OF_DATABASE:
        return "" if label in {"", "instance", *OF_DATABASE[name]} else f"label {label} of {name}"
    if name not in series:
        return f"series {name}"
    if label in {"", *OF_TARGET - {"job"}} or (label == "le" and name.endswith("_bucket")):
        return ""
    ours = label.removeprefix("exported_")
    base = name.removesuffix("_bucket").removesuffix("_count").removesuffix("_total")
    if ours not in series[name].labels and ours not in labels.get(base, ()):
        return f"label {label} of {name}"
    known = series[name].labels.get(ours, set()) | set(WORDS.get(name, {}).get(ours, ()))
    unknown = [word for word in words if not any(re.fullmatch(word, value) for value in known)]
    return f"{label} {unknown} of {name}" if unknown else ""


async def play(world: World) -> None:
    """Let a service have a paid session, an extension, a search that ends, and wrong calls of the webhook."""
    customer, mitra = await world.customer(), await world.mitra()
    session = await world.session(customer, mitra)
    await (await customer.open("chat")).say(session, "halo")
    await world.request(customer, is_extension=True, session_id=session)
    other = await world.customer()
    search = await world.paid(other)
    await other.post("/api/client/chat/cancel", {"payment_request_id": search["payment_request_id"]})
    payment = await world.request(other)
    assert (await world.webhook(payment, token="wrong"))[0] == 401
    assert (await world.webhook(payment, amount=1))[0] == 409


async def test_every_series_label_and_word_exists_on_a_running_service(world: World) -> None:
    await play(world)

    async def figures() -> str:
        return read_metrics(world.stack, "jobs")

    await world.until(figures, lambda text: "\nsesi_cluster_collected_timestamp_seconds " in text)
    series = exported(read_metrics(world.stack, process) for process in PROCESSES)
    rules, panels = queries_of_rules(DEPLOY), queries_of_panels(DEPLOY)
    recorded = {query.record for query in rules}
    queries = [*rules, *panels]
    assert len(queries) > 80
    labels = declared()
    for query, found in zip(queries, parsed(queries), strict=True):
        assert found.problem == "", query.where
        assert faults(found, series, labels, recorded) == [], query.where


def test_every_metric_is_on_a_dashboard_or_in_a_rule() -> None:
    queries = [*queries_of_rules(DEPLOY), *queries_of_panels(DEPLOY)]
    read = {re.sub("_(bucket|count|sum|total|info)$", "", name) for one in parsed(queries) for name, _, _ in one.reads}
    assert set(declared()) - read == UNSHOWN


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("sum(sesi_searchs)", "series sesi_searchs"),
        ("sum by (modus) (sesi_searches)", "label modus of sesi_searches"),
        ('sesi_searches{mode="blst"}', "mode ['blst'] of sesi_searches"),
        ('sesi_limited_total{limit=~"general|otp_addres"}', "limit ['otp_addres'] of sesi_limited_total"),
        ('up{process="job"}', "target with process ['job']"),
        ("sesi:nothing:rate5m", "recording rule sesi:nothing:rate5m"),
    ],
)
def test_misspelt_name_is_noticed(expression: str, problem: str) -> None:
    series = {
        "sesi_searches": Series("gauge", {"mode": {"blast"}}),
        "sesi_limited_total": Series("counter", {"limit": {"general"}}),
    }
    (found,) = parsed([Query(where="", expr=expression)])
    assert faults(found, series, {}, set()) == [f"the service has no {problem}"]
