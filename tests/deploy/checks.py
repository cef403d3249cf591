"""One check for each kind of file in `deploy`. Each takes the folder, or a copy, and returns what is wrong, or ""."""

import json
import pathlib
import re
import subprocess
import tempfile
from collections.abc import Callable
from typing import Any

import jsonschema

from tests.debian import path_of
from tests.deploy.custom_resources import CUSTOM_RESOURCES
from tests.deploy.monitoring import dashboards, prometheus
from tests.deploy.placed import place, write_certificate
from tests.deploy.programs import CHECKERS, ROOT, complaint_of, said_by

# Exposure as systemd counts it, 0 to 100 in tenths: ours have 12.
MOST_EXPOSED = 20
# These two load the grammar of IRIs when they start, for more than a second, and check none.
WITHOUT_IRIS = (CHECKERS / "python", ROOT / "tests" / "deploy" / "without_iris.py")
REDIRECT = "nginx.ingress.kubernetes.io/ssl-redirect"
NEEDED = {"GATEWAY_BASE_URL": "https://g", "OTP_HTTP_URL": "https://o", "FCM_PROJECT_ID": "p"}


def image(deploy: pathlib.Path) -> str:
    """Check the image's instructions by hadolint."""
    return complaint_of(CHECKERS / "hadolint", deploy / "Containerfile")


def scripts(deploy: pathlib.Path) -> str:
    """Check the syntax of the scripts. `make deploy-proof` runs them."""
    found = (complaint_of("bash", "-n", file) for file in sorted([*deploy.glob("*.sh"), deploy / "sesi-run"]))
    return "\n".join(text for text in found if text)


def compose(deploy: pathlib.Path) -> str:
    """Check compose.yaml by its schema, which names unknown keys, and by Compose, which resolves references."""
    file = deploy / "compose.yaml"
    by_schema = (*WITHOUT_IRIS, "check_jsonschema", "--builtin-schema", "vendor.compose-spec", file)
    by_compose = (CHECKERS / "docker-compose", "-f", file, "config", "-q")
    return complaint_of(*by_schema) or complaint_of(*by_compose, **NEEDED)


def rendered(deploy: pathlib.Path) -> tuple[str, list[dict[str, Any]]]:
    """Return the problems that Helm finds in the chart, and the documents that it renders."""
    command = [CHECKERS / "python", ROOT / "tests" / "deploy" / "render.py", deploy / "chart"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr, []
    answer = json.loads(done.stdout)
    return "\n".join(answer["problems"]), answer["documents"]


def chart(deploy: pathlib.Path) -> str:
    """Check the chart by Helm, and what it renders by the schemas of Kubernetes."""
    problems, documents = rendered(deploy)
    if problems:
        return problems
    if exposed := served_unencrypted(documents):
        return exposed
    ours = [one for one in documents if one["kind"] in CUSTOM_RESOURCES]
    for document in ours:
        try:
            jsonschema.validate(document, CUSTOM_RESOURCES[document["kind"]])
        except jsonschema.ValidationError as error:
            return f"{document['kind']} {document['metadata']['name']}: {error.message}"
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, document in enumerate(one for one in documents if one not in ours):
            files.append(pathlib.Path(folder) / f"{number}.yaml")
            files[-1].write_text(json.dumps(document))
        # A kind without a schema is only a warning.
        code, said = said_by(*WITHOUT_IRIS, "kubernetes_validate", "--strict", *files)
    return said if code or "WARN" in said else ""


def served_unencrypted(documents: list[dict[str, Any]]) -> str:
    """Return which host an Ingress serves on port 80, without TLS or without a redirect to it; "" if there is none."""
    for document in (one for one in documents if one["kind"] == "Ingress"):
        hosts = {rule.get("host", "any host") for rule in document["spec"]["rules"]}
        encrypted = {host for tls in document["spec"].get("tls", []) for host in tls["hosts"]}
        if plain := sorted(hosts - encrypted):
            return f"the Ingress serves {', '.join(plain)} without TLS"
        if document["metadata"].get("annotations", {}).get(REDIRECT) != "true":
            return f"the Ingress serves {', '.join(sorted(hosts))} on port 80: set {REDIRECT}"
    return ""


def units(deploy: pathlib.Path) -> str:
    """Check the systemd units: an unknown key is a warning only, so the output must be empty; and their exposure."""
    files = sorted([*deploy.glob("systemd/sesi*.service"), *deploy.glob("pgbackrest/sesi*.service")])
    with tempfile.TemporaryDirectory() as folder:
        copies = []
        for file in [*files, deploy / "systemd" / "sesi.target", *deploy.glob("pgbackrest/*.timer")]:
            copies.append(pathlib.Path(folder) / file.name)
            # systemd-analyze looks for the programs, which are not installed here.
            copies[-1].write_text(
                re.sub("/opt/sesi(-%i)?/bin/sesi|/usr/bin/(pgbackrest|curl)", "/bin/true", file.read_text())
            )
        code, said = said_by(path_of("systemd-analyze"), "verify", *copies)
    if code or said:
        return said or f"systemd-analyze verify: exit code {code}"
    limit = f"--threshold={MOST_EXPOSED}"
    found = (complaint_of(path_of("systemd-analyze"), "security", "--offline=true", limit, file) for file in files)
    return "\n".join(text for text in found if text)


def nginx(deploy: pathlib.Path) -> str:
    """Check nginx.conf by nginx, and by gixy for mistakes of security."""
    with tempfile.TemporaryDirectory() as folder:
        write_certificate(pathlib.Path(folder))
        file = place("nginx", deploy, pathlib.Path(folder))
        code, said = said_by(path_of("nginx"), "-t", "-q", "-p", folder, "-c", file)
    if code or said:
        return said or f"nginx -t: exit code {code}"
    return complaint_of(CHECKERS / "gixy", deploy / "nginx.conf")


def haproxy(deploy: pathlib.Path) -> str:
    """Check haproxy.cfg by HAProxy; a warning counts."""
    with tempfile.TemporaryDirectory() as folder:
        write_certificate(pathlib.Path(folder))
        file = place("haproxy", deploy, pathlib.Path(folder))
        code, said = said_by(path_of("haproxy"), "-c", "-f", file)
    return said if code or "[WARNING]" in said else ""


CHECKS: tuple[Callable[[pathlib.Path], str], ...] = (
    image,
    scripts,
    compose,
    chart,
    units,
    nginx,
    haproxy,
    prometheus,
    dashboards,
)
