"""Prometheus with the shipped rules reads a running service: every target is up, every rule runs, and no alert fires."""

import contextlib
import json
import pathlib
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
import yaml

from tests.debian import path_of
from tests.deploy.programs import DEPLOY, checkers_missing
from tests.stack import Stack, World
from tools.driving.throwaway import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(checkers_missing()), reason=checkers_missing())]
LISTENERS = {"sesi-api": "INTERNAL", "sesi-realtime": "REALTIME", "sesi-jobs": "JOBS"}  # job of the scrape -> listener
STOP_S = 10.0


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Run a service in which nothing has gone wrong, unlike in one that other tests use."""
    made = Stack()
    yield made
    made.close()


@attrs.frozen
class Prometheus:
    """A running Prometheus."""

    port: int

    def ask(self, path: str, **query: str) -> Any:
        """Return the data of an answer; None before it answers."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    async def rules(self) -> list[dict[str, Any]]:
        """Return the rules, with their health."""
        return [rule for group in (self.ask("rules") or {"groups": []})["groups"] for rule in group["rules"]]

    async def targets(self) -> list[dict[str, Any]]:
        """Return the targets, with their health."""
        return (self.ask("targets") or {"activeTargets": []})["activeTargets"]


@contextlib.contextmanager
def reading(stack: Stack, folder: pathlib.Path) -> Iterator[Prometheus]:
    """Run a Prometheus that reads a service every second, with the example configuration."""
    configuration = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    del configuration["alerting"]
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configuration["rule_files"] = [str(DEPLOY / "prometheus" / "rules" / "*.yml")]
    of_service = [scrape for scrape in configuration["scrape_configs"] if scrape["job_name"] in LISTENERS]
    configuration["scrape_configs"] = of_service
    for scrape in of_service:
        scrape["static_configs"][0]["targets"] = [f"127.0.0.1:{stack.ports[LISTENERS[scrape['job_name']]]}"]
    file, port = folder / "prometheus.yml", free_port()
    file.write_text(yaml.safe_dump(configuration))
    options = (f"--config.file={file}", f"--storage.tsdb.path={folder}", f"--web.listen-address=127.0.0.1:{port}")
    with (folder / "output.log").open("wb") as out:
        process = subprocess.Popen([path_of("prometheus"), *options], stdout=out, stderr=out)
    try:
        yield Prometheus(port)
    finally:
        process.terminate()
        try:
            process.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def test_rules_run_on_a_service_and_no_alert_fires(world: World, tmp_path: pathlib.Path) -> None:
    await world.session(await world.customer(), await world.mitra())
    with reading(world.stack, tmp_path) as prometheus:
        targets = await world.until(
            prometheus.targets, lambda found: len(found) == 3 and all(one["health"] == "up" for one in found)
        )
        assert {one["labels"]["process"] for one in targets} == {"api", "realtime", "jobs"}
        rules = await world.until(
            prometheus.rules, lambda found: len(found) > 40 and all(one["health"] != "unknown" for one in found)
        )
        assert [(rule["name"], rule["lastError"]) for rule in rules if rule["health"] != "ok"] == []
        assert [
            alert["labels"] for rule in rules for alert in rule.get("alerts", []) if alert["state"] == "firing"
        ] == []

        async def renamed() -> list[Any]:
            return (prometheus.ask("query", query='sesi_job_runs_total{exported_job!=""}') or {"result": []})["result"]

        assert await world.until(renamed, bool)
