"""README, CONTRIBUTING, CHANGELOG and .env.example: short, complete, and about things that exist."""

import ast
import pathlib
import re
import subprocess
import tomllib

import pytest

from core.settings import settings
from core.settings.environment import read as read_settings

ROOT = pathlib.Path(__file__).parents[2]
README_LINES = 70
MOST = 20  # files in the root, and targets that `make help` lists
RECIPES = (
    "endpoint",
    "error code",
    "configuration row",
    "cause tag",
    "session state",
    "event",
    "frame",
    "timer",
    "migration",
    "provider",
    "control center page",
)
PACKAGES = ("core", "api", "realtime", "jobs", "tools", "tests", "docs", "piccolo_migrations")
FILE = re.compile(rf"`((?:{'|'.join(PACKAGES)})/[\w./-]+)(?:::(\w+))?`")
SPEAKER = re.compile(r" *\d+:\d\d  (\w+) +(.*)")


def recipes() -> dict[str, str]:
    """Return the text of each recipe, by its name."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return dict(re.findall(r"^### Add an? (.+?)\n(.*?)(?=^### |\Z)", text, re.M | re.S))


def names_in(path: pathlib.Path) -> set[str]:
    """Return the names of the functions of a test file."""
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def variables_of(text: str) -> dict[str, str]:
    """Return the variables that a file of the environment sets, each once."""
    pairs = [line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#")]
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES


def test_root_has_few_files_and_the_makefile_few_targets() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert len([name for name in listed if "/" not in name]) <= MOST
    assert len(re.findall(r"^[a-z-]+:.*## ", (ROOT / "Makefile").read_text(), re.M)) <= MOST


def test_each_line_of_the_demo_page_is_one_that_the_demo_prints() -> None:
    tree = ast.parse((ROOT / "tools" / "commands" / "demo.py").read_text())
    printed = []
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(("say", "_stage.say")) and len(call.args) > 1:
            for part in ast.walk(call.args[1]):
                if isinstance(part, ast.JoinedStr | ast.Constant):
                    printed.append(_pattern(part))
    said = [
        match[2] for line in (ROOT / "docs" / "demo.md").read_text().splitlines() if (match := SPEAKER.fullmatch(line))
    ]
    assert len(said) > 30
    assert [words for words in said if not any(re.fullmatch(pattern, words) for pattern in printed)] == []


def _pattern(text: ast.JoinedStr | ast.Constant) -> str:
    """Return a regular expression for what a string prints, without the styles of rich."""
    parts = text.values if isinstance(text, ast.JoinedStr) else [text]
    pattern = "".join(
        re.escape(re.sub(r"\[/?\w*\]", "", str(part.value))) if isinstance(part, ast.Constant) else ".+"
        for part in parts
    )
    return pattern if re.search(r"\w{3}", pattern) else "(?!)"


def test_contributing_has_each_recipe() -> None:
    assert tuple(recipes()) == RECIPES


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_names_files_and_tests_that_exist(name: str) -> None:
    text = recipes()[name]
    named = FILE.findall(text)
    assert len(named) >= 3
    missing = [path for path, _ in named if not (ROOT / path).exists()]
    missing += [f"{path}::{test}" for path, test in named if test and test not in names_in(ROOT / path)]
    assert missing == []
    assert re.search(r"^First failure[^:]*:\s+`", text, re.M)
    steps = [int(number) for number in re.findall(r"^(\d+)\. ", text, re.M)]
    assert steps == list(range(1, len(steps) + 1))


def test_recipe_names_objects_of_its_files() -> None:
    """A constant in backticks is in a file of the same step, or is a setting."""
    missing = []
    for name, text in recipes().items():
        for step in re.split(r"^\d+\. ", text, flags=re.M)[1:]:
            files = [ROOT / path for path, test in FILE.findall(step) if not test]
            content = "".join(path.read_text() for path in files if path.is_file())
            for constant in set(re.findall(r"`([A-Z][A-Z_]{3,})`", step)) - settings.names():
                if content and constant not in content:
                    missing.append(f"{name}: {constant}")
    assert missing == []


def test_env_example_sets_exactly_the_settings_to_their_defaults() -> None:
    text = (ROOT / ".env.example").read_text()
    found = variables_of(text)
    unset = set(re.findall(r"^#([A-Z_]+)=$", text, re.M))
    to_choose = set(re.findall(r"^#([A-Z_]+)=[a-z]+$", text, re.M))
    assert found.keys() | unset | to_choose == settings.names()
    # Secrets with a default for development.
    assert unset == {"JWT_SECRETS", "ERASURE_HASH_KEYS", "RECEIPT_SIGNING_KEYS", "GATEWAY_CALLBACK_TOKEN"}
    assert to_choose == {"GATEWAY_ENABLED", "OTP_SENDER", "PUSH_SENDER", "DOCS_ENABLED"}
    assert read_settings(found) == read_settings({})


def test_make_up_offers_the_development_identities_unless_told_otherwise() -> None:
    recipe = re.search(r"^up:.*\n\t(.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert recipe is not None
    assert 'DEVELOPMENT_IDENTITIES="$${DEVELOPMENT_IDENTITIES-true}" $(SESI) up' in recipe[1]


def test_env_example_has_no_secret() -> None:
    found = variables_of((ROOT / ".env.example").read_text())
    secrets = [field.name.upper() for field in settings.variables() if field.metadata["secret"]]
    assert len(secrets) > 4
    assert [name for name in secrets if found.get(name)] == []


def test_changelog_names_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    headings = re.findall(r"^## \[(.+?)\] - (unreleased|\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert version in dict(headings)
    assert [when for _, when in headings[1:] if when == "unreleased"] == []


def test_hooks_run_tools_of_the_environment_only() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"repo: (\S+)", text) == ["local"]
    entries = re.findall(r"entry: (\S+)", text)
    assert len(entries) == text.count("- id:") == text.count("language: system")
    assert [entry for entry in entries if not entry.startswith(".venv/bin/")] == []
