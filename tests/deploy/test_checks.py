"""The shipped files of `deploy` pass each check, and each check refuses a broken copy."""

import pathlib
import shutil
from collections.abc import Callable

import pytest

from tests.deploy import checks
from tests.deploy.programs import DEPLOY, checkers_missing

pytestmark = pytest.mark.skipif(bool(checkers_missing()), reason=checkers_missing())
Check = Callable[[pathlib.Path], str]
# The check, the file, what is replaced in it, by what, and what the complaint must name.
BROKEN: tuple[tuple[Check, str, str, str, str], ...] = (
    (checks.image, "Containerfile", "USER 10001:10001", "USER root", "DL3002"),
    (checks.scripts, "install.sh", "\nfi\n", "\n", "syntax error"),
    (checks.scripts, "sesi-run", "\nesac\n", "\n", "syntax error"),
    (checks.compose, "compose.yaml", "restart: unless-stopped", "restrat: unless-stopped", "restrat"),
    (checks.compose, "compose.yaml", "networks: [backends]", "networks: [backend]", "undefined network backend"),
    (checks.chart, "chart/templates/_helpers.tpl", "readOnlyRootFilesystem", "readOnlyFilesystem", "readOnlyFilesystem"),
    (checks.chart, "chart/templates/scaling.yaml", "maxReplicas: {{ .max }}", "maxReplicas: ten", "maxReplicas"),
    (checks.chart, "chart/templates/monitoring.yaml", "path: /metrics", "place: /metrics", "place"),
    (checks.chart, "chart/templates/monitoring.yaml", "process, replacement", "process, substitute", "substitute"),
    (checks.chart, "chart/templates/rules.yaml", 'replace "runbook_url:', 'replace "runbook:', "does not match '^https"),
    (checks.chart, "chart/rules/data.yml", "        labels: ", "        label: ", "label"),
    (checks.chart, "chart/rules/data.yml", "  - name: sesi-data\n", "  -\n", "name"),
    (checks.chart, "chart/templates/network.yaml", "networking.k8s.io/v1", "networking.k8s.io/v9", "v9"),
    (checks.chart, "chart/example-values.yaml", "TRUSTED_PROXIES: 10.20.0.0/16", "DRAIN_SECONDS: 5", "TRUSTED_PROXIES"),
    (checks.chart, "chart/values.yaml", 'ssl-redirect: "true"', 'ssl-redirect: "false"', "on port 80: set nginx.ingress"),
    (checks.chart, "chart/values.yaml", "ssl-redirect", "app-root", "on port 80: set nginx.ingress"),
    (checks.chart, "chart/templates/ingress.yaml", "  tls:\n    - hosts: [", "  tls:\n    - hosts: [x-", "without TLS"),
    (checks.chart, "chart/example-values.yaml", "  OTP_SENDER: http\n", "", "settings.OTP_SENDER must be set"),
    (checks.chart, "chart/example-values.yaml", "  redis:\n", "  valkey:\n", "networkPolicy.redis"),
    (checks.units, "systemd/sesi-api@.service", "MemoryMax=", "MemoryMaximum=", "MemoryMaximum"),
    (checks.units, "systemd/sesi-jobs@.service", "CapabilityBoundingSet=\n", "", "exposure level"),
    (checks.units, "pgbackrest/sesi-backup-diff.timer", "Sat *-*-* 02:00", "Sat *-*-* 26:00", "calendar"),
    (checks.units, "pgbackrest/sesi-backup@.service", "NoNewPrivileges=yes\n", "NoNewPrivilege=yes\n", "NoNewPrivilege"),
    (checks.nginx, "nginx.conf", "proxy_pass http://realtime", "proxy_pass http://nobody", "nobody"),
    (checks.nginx, "nginx.conf", "proxy_set_header Host $host", "proxy_set_header Host $http_host", "host_spoofing"),
    (checks.haproxy, "haproxy.cfg", "\nbackend realtime", "\nbackend sockets", "realtime"),
    (checks.haproxy, "haproxy.cfg", "timeout client 30s\n", "", "timeout"),
    (checks.prometheus, "prometheus/prometheus.yml", "static_configs:", "static_config:", "static_config"),
    (checks.prometheus, "prometheus/rules/data.yml", "min by (table)", "min by table", "parse error"),
    (checks.prometheus, "prometheus/rules/data.yml", "{{ $labels.standby }}", "{{ $label.standby }}", "label"),
    (checks.prometheus, "prometheus/rules/data.yml", "SesiStandbyGone", "SesiStandbyLag", "duplicate"),
    (checks.prometheus, "prometheus/rules/data.yml", "sesi_standby_lag_seconds) > 10", "sesi_standby_lag_seconds) > 100", "SesiStandbyLag"),
    (checks.prometheus, "prometheus/rules/data.yml", "for: 15m", "for: 60m", "SesiPartitionsRunOut"),
    (checks.prometheus, "prometheus/rules/money.yml", "> 900", "> 9", "SesiAuditNotRun"),
    (checks.prometheus, "prometheus/alertmanager.yml", "receiver: on-call", "receiver: oncall", "undefined receiver"),
    (checks.dashboards, "grafana/sesi-data.json", "max by (kind)", "max by kind", "invalid promql"),
    (checks.dashboards, "grafana/sesi-data.json", '"unit": "none"', '"unit": "piece"', "piece"),
    (checks.dashboards, "grafana/sesi-data.json", '"${datasource}"', '"prometheus"', "prometheus"),
    (checks.dashboards, "grafana/sesi-data.json", '"uid": "sesi-data"', '"uid": "sesi-business"', "sesi-business"),
    (checks.dashboards, "grafana/sesi-data.json", '"x": 8,', '"x": 4,', "overlap"),
    (checks.dashboards, "grafana/sesi-data.json", "{{standby}}", "{{server}}", "server"),
)  # fmt: skip


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.__name__)
def test_shipped_files_pass_the_check(check: Check) -> None:
    assert check(DEPLOY) == ""


def test_every_check_is_shown_to_fail() -> None:
    assert {case[0] for case in BROKEN} == set(checks.CHECKS)


@pytest.mark.parametrize(
    ("check", "file", "old", "new", "named"), BROKEN, ids=lambda word: getattr(word, "__name__", None)
)
def test_broken_file_fails_its_check(
    check: Check, file: str, old: str, new: str, named: str, tmp_path: pathlib.Path
) -> None:
    copy = tmp_path / "deploy"
    shutil.copytree(DEPLOY, copy)
    text = (copy / file).read_text()
    assert old in text
    (copy / file).write_text(text.replace(old, new))
    assert named in check(copy)


def test_each_pod_of_the_chart_has_the_url_of_its_role_alone() -> None:
    problems, documents = checks.rendered(DEPLOY)
    assert problems == ""
    found = {}
    for document in documents:
        if document["kind"] in {"Deployment", "Job"}:
            volumes = document["spec"]["template"]["spec"]["volumes"]
            items = next(one["secret"]["items"] for one in volumes if one["name"] == "secrets")
            urls = [(item["key"], item["path"]) for item in items if item["key"].startswith("DATABASE_URL")]
            found[document["metadata"]["name"].removeprefix("sesi-")] = urls
    assert found == {
        "api": [("DATABASE_URL", "DATABASE_URL")],
        "realtime": [("DATABASE_URL", "DATABASE_URL")],
        "jobs": [("DATABASE_URL_JOBS", "DATABASE_URL")],
        "migrate": [("DATABASE_URL_MIGRATE", "DATABASE_URL")],
    }


def test_broken_chart_with_a_wrong_template_is_refused(tmp_path: pathlib.Path) -> None:
    copy = tmp_path / "deploy"
    shutil.copytree(DEPLOY, copy)
    (copy / "chart" / "templates" / "services.yaml").write_text("{{ end }}")
    assert "unexpected" in checks.chart(copy)
