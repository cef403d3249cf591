"""The checks of the files for Prometheus and Grafana, and the expressions in them."""

import itertools
import json
import pathlib
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import attrs
import jsonschema
import yaml

from tests.debian import path_of
from tests.deploy.custom_resources import exactly
from tests.deploy.programs import CHECKERS, ROOT, complaint_of

TEXT = {"type": "string", "minLength": 1}
DATASOURCE = {"const": {"type": "prometheus", "uid": "${datasource}"}}
# Units of Grafana that the dashboards may use; it shows an unknown one as a text behind the number.
UNITS = ["none", "s", "bytes", "ops", "reqps", "percentunit", "currency:Rp"]
# The parts of Grafana's model that a panel of ours has; Grafana publishes no schema that covers them.
PANEL = exactly(
    id={"type": "integer"},
    type={"enum": ["stat", "timeseries"]},
    title=TEXT,
    description={"type": "string"},
    gridPos=exactly(**{name: {"type": "integer", "minimum": 0, "maximum": 1000} for name in "hwxy"}),
    datasource=DATASOURCE,
    fieldConfig=exactly(
        defaults=exactly(unit={"enum": UNITS}, min={"type": "number"}), overrides={"type": "array", "maxItems": 0}
    ),
    options={"type": "object"},
    targets={
        "type": "array",
        "minItems": 1,
        "items": exactly(refId={"pattern": "^[A-Z]$"}, datasource=DATASOURCE, expr=TEXT, legendFormat=TEXT),
    },
)
DASHBOARD = exactly(
    uid={"pattern": "^[a-z-]{1,40}$"},
    title=TEXT,
    tags={"const": ["sesi"]},
    schemaVersion={"type": "integer"},
    editable={"type": "boolean"},
    graphTooltip={"type": "integer"},
    refresh=TEXT,
    timezone=TEXT,
    time=exactly(**{"from": TEXT, "to": TEXT}),
    templating=exactly(
        list={
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": exactly(
                name={"const": "datasource"}, label=TEXT, type={"const": "datasource"}, query={"const": "prometheus"}
            ),
        }
    ),
    panels={"type": "array", "minItems": 1, "items": PANEL},
)


@attrs.frozen
class Query:
    """An expression and where it is. `legend` is that of a panel; `record` the name that a rule gives to the result."""

    where: str
    expr: str
    legend: str = ""
    record: str = ""


@attrs.frozen
class Parsed:
    """What an expression reads, as tests/deploy/queries.py returns it."""

    problem: str
    reads: list[tuple[str, str, list[str]]]
    labels: list[str] | None


def rules_of(deploy: pathlib.Path) -> Iterator[tuple[pathlib.Path, dict[str, Any]]]:
    """Yield each rule and its file."""
    for path in sorted((deploy / "prometheus" / "rules").glob("*.yml")):
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                yield path, rule


def queries_of_rules(deploy: pathlib.Path) -> list[Query]:
    """Return the expressions of the rules."""
    return [
        Query(where=f"{path.name}: {rule.get('alert') or rule['record']}", expr=rule["expr"], record=rule.get("record", ""))
        for path, rule in rules_of(deploy)
    ]  # fmt: skip


def queries_of_panels(deploy: pathlib.Path) -> list[Query]:
    """Return the expressions of the panels, with an interval in place of Grafana's variable."""
    return [
        Query(
            where=f"{path.name}: {panel['title']}",
            expr=target["expr"].replace("$__rate_interval", "1m"),
            legend=target["legendFormat"],
        )
        for path in sorted((deploy / "grafana").glob("*.json"))
        for panel in json.loads(path.read_text())["panels"]
        for target in panel["targets"]
    ]


def parsed(queries: list[Query]) -> list[Parsed]:
    """Parse the expressions."""
    command = [str(CHECKERS / "python"), str(ROOT / "tests" / "deploy" / "queries.py")]
    asked = json.dumps([query.expr for query in queries])
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
    return [Parsed(**one) for one in json.loads(done.stdout)]


def prometheus(deploy: pathlib.Path) -> str:
    """Check the example configurations and the rules by promtool and amtool, and test the rules."""
    folder = deploy / "prometheus"
    program = path_of("promtool")
    rules, tests = (sorted((folder / name).glob("*.yml")) for name in ("rules", "tests"))
    return (
        complaint_of(program, "check", "config", folder / "prometheus.yml")
        or complaint_of(program, "check", "rules", "--lint=all", "--lint-fatal", *rules)
        or complaint_of(path_of("amtool"), "check-config", folder / "alertmanager.yml")
        # One by one: the tests take longest, and the first file that fails is enough.
        or next(filter(None, (complaint_of(program, "test", "rules", test) for test in tests)), "")
    )


def dashboards(deploy: pathlib.Path) -> str:
    """Check the dashboards by a schema of ours, and their expressions by a parser of PromQL."""
    uids: set[str] = set()
    for path in sorted((deploy / "grafana").glob("*.json")):
        try:
            dashboard = json.loads(path.read_text())
            jsonschema.validate(dashboard, DASHBOARD)
        except (json.JSONDecodeError, jsonschema.ValidationError) as error:
            return f"{path.name}: {error}"
        if dashboard["uid"] in uids:
            return f"{path.name}: another dashboard has the uid {dashboard['uid']}"
        uids.add(dashboard["uid"])
        if problem := misplaced(dashboard["panels"]):
            return f"{path.name}: {problem}"
    queries = queries_of_panels(deploy)
    for query, found in zip(queries, parsed(queries), strict=True):
        if found.problem:
            return f"{query.where}: {found.problem}: {query.expr}"
        if found.labels is not None and (unknown := set(re.findall(r"{{(\w+)}}", query.legend)) - set(found.labels)):
            return f"{query.where}: the legend names {unknown}, which the result does not have"
    return ""


def misplaced(panels: list[dict[str, Any]]) -> str:
    """Return which panels have the same id, or overlap; an empty text if none."""
    for one, other in itertools.combinations(panels, 2):
        a, b = one["gridPos"], other["gridPos"]
        if one["id"] == other["id"]:
            return f"two panels have the id {one['id']}"
        if (
            a["x"] < b["x"] + b["w"]
            and b["x"] < a["x"] + a["w"]
            and a["y"] < b["y"] + b["h"]
            and b["y"] < a["y"] + a["h"]
        ):
            return f"the panels {one['title']} and {other['title']} overlap"
    return ""
