"""Each alert has its texts, its section in the runbook and its tests."""

import pathlib
import re
from typing import Any

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
RUNBOOK = ROOT / "docs" / "runbook.md"
FILES = sorted((PROMETHEUS / "rules").glob("*.yml"))
PARTS = ("See", "Do", "Escalate")


def alerts_in(path: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Return the alerts of a file of rules: name -> rule."""
    groups = yaml.safe_load(path.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


ALERTS = {name: rule for path in FILES for name, rule in alerts_in(path).items()}


def sections() -> dict[str, str]:
    """Return the runbook's sections about alerts: heading -> text."""
    _, *parts = re.split(r"^### (.+)$", RUNBOOK.read_text(), flags=re.MULTILINE)
    return {
        heading: re.split(r"^## ", text, flags=re.MULTILINE)[0]
        for heading, text in zip(parts[::2], parts[1::2], strict=True)
    }


def outcomes(path: pathlib.Path) -> set[tuple[str, bool]]:
    """Return (alert, whether it fires) of each case in the tests of a file of rules."""
    tests = yaml.safe_load((PROMETHEUS / "tests" / path.name).read_text())
    assert tests["rule_files"] == [f"../rules/{path.name}"]
    return {
        (case["alertname"], bool(case.get("exp_alerts"))) for test in tests["tests"] for case in test["alert_rule_test"]
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_alert_is_tested_once_firing_and_once_not(path: pathlib.Path) -> None:
    assert outcomes(path) == {(name, fires) for name in alerts_in(path) for fires in (True, False)}


def test_every_file_of_tests_is_about_a_file_of_rules() -> None:
    assert {path.name for path in (PROMETHEUS / "tests").iterdir()} == {path.name for path in FILES}


def test_every_alert_has_a_severity_its_texts_and_its_section() -> None:
    assert len(ALERTS) > 30
    for name, rule in ALERTS.items():
        assert rule["labels"].keys() == {"severity"}, name
        assert rule["labels"]["severity"] in {"critical", "warning"}, name
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}, name
        assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{name.lower()}", name


def test_runbook_has_exactly_one_section_for_each_alert() -> None:
    assert sorted(re.findall(r"^### (.+)$", RUNBOOK.read_text(), re.MULTILINE)) == sorted(ALERTS)


def test_every_section_says_how_to_see_what_to_do_and_when_to_escalate() -> None:
    for name, text in sections().items():
        assert re.findall(r"^- \*\*(\w+):\*\* ", text, re.MULTILINE) == list(PARTS), name


def test_alertmanager_routes_and_silences_alerts_that_exist() -> None:
    text = (PROMETHEUS / "alertmanager.yml").read_text()
    named = set(re.findall(r"Sesi[A-Z]\w+", text))
    assert len(named) > 10
    assert named <= ALERTS.keys()
    assert set(re.findall(r"severity = (\w+)", text)) <= {rule["labels"]["severity"] for rule in ALERTS.values()}
