"""The inventory names every package of the runtime lock; the audit of the locks never passes without data."""

import contextlib
import functools
import http.server
import json
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.deploy.programs import CHECKERS, checkers_missing
from tools.checks.audit_locks import audit, look_up
from tools.checks.sbom import inventory
from tools.driving.throwaway import free_port
from tools.pages.licences import pins

pytestmark = pytest.mark.skipif(not (CHECKERS / "pip-audit").exists(), reason=checkers_missing())
LOCK = "".join(f"{name} \\\n    --hash=sha256:{'0' * 64}\n" for name in ("attrs==26.1.0", "idna==3.20"))
VULNERABILITY = {
    "id": "PYSEC-2026-1",
    "affected": [
        {
            "package": {"name": "idna", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "3.21"}]}],
        }
    ],
}


class Osv(http.server.BaseHTTPRequestHandler):
    """A server with the protocol of OSV that knows the vulnerabilities in `known`: package -> list."""

    known: dict[str, list[Any]]

    def do_POST(self) -> None:
        """Answer one query."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        found = self.known.get(asked["package"]["name"])
        body = json.dumps({"vulns": found} if found else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name in the base class)
        """Log nothing."""


@contextlib.contextmanager
def osv(**known: list[Any]) -> Iterator[str]:
    """Run a server that knows these vulnerabilities; yield its URL."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Known", (Osv,), {"known": known})) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/query"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def lock(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a lock file of two packages."""
    file = tmp_path / "some.lock"
    file.write_text(LOCK)
    return file


def test_inventory_has_each_package_with_version_licence_and_hashes() -> None:
    document = inventory()
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert document["metadata"]["component"]["name"] == "sesi"
    assert {one["name"]: one["version"] for one in document["components"]} == pins()
    for one in document["components"]:
        assert one["licenses"][0]["expression"]
        assert one["externalReferences"][0]["hashes"][0]["alg"] == "SHA-256"


def test_audit_passes_if_the_data_has_no_vulnerability(lock: pathlib.Path) -> None:
    with osv() as url:
        assert audit(lock, functools.partial(look_up, osv_url=url)) == (
            0,
            "some.lock: no known vulnerability in 2 packages",
        )


def test_audit_names_a_vulnerability_and_its_fix(lock: pathlib.Path) -> None:
    with osv(idna=[VULNERABILITY]) as url:
        assert audit(lock, functools.partial(look_up, osv_url=url)) == (
            1,
            "some.lock: idna 3.20: PYSEC-2026-1, fixed in 3.21",
        )


def test_audit_without_data_fails_and_says_so(lock: pathlib.Path) -> None:
    nobody = f"http://127.0.0.1:{free_port()}/v1/query"
    code, said = audit(lock, functools.partial(look_up, osv_url=nobody))
    assert code == 2
    assert said.startswith("some.lock: not checked, the data is not available: ")
